import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { kubectlFor } from '../kubectl.ts';
import type { TrialContext } from './context.ts';
import { SERVICES } from './servers.ts';

/** The servers that were ready from some moment on. */
export interface ReadyServers {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly pods: ReadonlySet<string>;
}

// With jsonpath, kubectl prints a range only once.
const LINE = '{{range .endpoints}}{{.targetRef.name}}={{.conditions.ready}} {{end}}{{"\\n"}}';

/** Watches the EndpointSlice of the Service that all new connections go to, and remembers when each event arrived. */
export class EndpointWatch {
  readonly #events: ReadyServers[] = [];
  readonly #watch: ChildProcess;

  constructor(context: TrialContext) {
    const args = [
      `--namespace=${context.namespace}`,
      'get',
      'endpointslices.discovery.k8s.io',
      `--selector=kubernetes.io/service-name=${SERVICES.cluster}`,
      '--watch',
      `--output=go-template=${LINE}`,
    ];
    const [program = '', ...first] = kubectlFor(context.state);
    this.#watch = spawn(program, [...first, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
    if (this.#watch.stdout === null) throw new Error('kubectl has no output');
    createInterface({ input: this.#watch.stdout }).on('line', (line) => {
      this.#events.push({ at: Date.now(), pods: readyServers(line) });
    });
  }

  /** When all these servers had stopped to be ready, after a time; undefined while one is. */
  goneAt(pods: readonly string[], after: number): number | undefined {
    return goneAt(this.#events, pods, after);
  }

  end(): void {
    this.#watch.kill('SIGKILL');
  }
}

/** Reads a line like `a=true b=false`. */
export function readyServers(line: string): ReadonlySet<string> {
  const endpoints = line.split(' ').map((endpoint) => endpoint.split('='));
  return new Set(endpoints.flatMap(([pod = '', ready]) => (ready === 'true' ? [pod] : [])));
}

export function goneAt(events: readonly ReadyServers[], pods: readonly string[], after: number): number | undefined {
  return events.find((event) => event.at >= after && !pods.some((pod) => event.pods.has(pod)))?.at;
}
