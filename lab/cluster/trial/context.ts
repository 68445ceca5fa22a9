import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type CommandResult, runCommand } from '../../../test/bed/command.ts';
import type { Say } from '../cluster.ts';
import type { E2eProxy } from '../e2e/results.ts';
import { type ClusterFolder, clusterFolder } from '../folders.ts';
import { type Kubectl, kubectlFor } from '../kubectl.ts';
import type { ClusterState } from '../state-file.ts';
import { type Endpoint, type EndpointSliceList, endpointsOf } from './endpoints.ts';
import type { Allowance, Check, Failure, Step } from './judge.ts';
import { SERVICES } from './servers.ts';
import type { Traffic } from './traffic.ts';

const COMMAND_MS = 600_000;

/** What a trial works with. */
export class TrialContext {
  readonly state: ClusterState;
  /** The service proxy that the cluster ran when the trial began. */
  readonly proxy: E2eProxy;
  readonly namespace: string;
  readonly folder: ClusterFolder;
  readonly traffic: Traffic;
  readonly steps: Step[] = [];
  readonly allowances: Allowance[] = [];
  readonly checks: Check[] = [];
  readonly measured: Record<string, string> = {};
  readonly #say: Say;
  readonly #kubectl: Kubectl;

  constructor(state: ClusterState, proxy: E2eProxy, namespace: string, traffic: Traffic, say: Say) {
    this.state = state;
    this.proxy = proxy;
    this.namespace = namespace;
    this.traffic = traffic;
    this.folder = clusterFolder(state.cluster);
    this.#say = say;
    this.#kubectl = kubectlFor(state);
  }

  /** Writes a line to the trial's log, with the time. */
  say(line: string): void {
    this.#say(`${new Date().toISOString().slice(11, 23)} ${line}`);
  }

  /** Begins a step: failures that begin from now on are printed beside it. */
  step(text: string): void {
    this.steps.push({ at: Date.now(), text });
    const { asked, failed, cut, slow } = this.traffic.counts();
    this.say(`step: ${text} (${asked} asked, ${failed} failed, ${cut} cut, ${slow} slow so far; ${cpuPressure()})`);
  }

  /** Runs kubectl. Returns what it prints; throws a CommandError if it fails. */
  async kubectl(args: readonly string[], input = ''): Promise<string> {
    return (await runCommand([...this.#kubectl, ...args], { input, timeoutMs: COMMAND_MS })).stdout;
  }

  /** Runs kubectl in the namespace of the trial. */
  async own(args: readonly string[], input = ''): Promise<string> {
    return this.kubectl([`--namespace=${this.namespace}`, ...args], input);
  }

  async apply(objects: readonly unknown[]): Promise<void> {
    await this.kubectl(['apply', '--filename=-'], JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }));
  }

  /** Runs a command line of a shell on a node; works without API server and kubelet. */
  async node(name: string, command: string): Promise<string> {
    return (await this.nodeResult(name, command, false)).stdout;
  }

  /** The same, for a command that may fail. */
  async nodeResult(name: string, command: string, allowFailure = true): Promise<CommandResult> {
    const shell = path.join(this.folder.root, 'node-shell');
    return runCommand([shell, name, command], { timeoutMs: COMMAND_MS, allowFailure });
  }

  /** Runs a command in the cluster's network namespace, outside of the nodes. */
  async host(argv: readonly string[]): Promise<string> {
    return (await this.hostResult(argv, false)).stdout;
  }

  /** The same, for a command that may fail. */
  async hostResult(argv: readonly string[], allowFailure = true): Promise<CommandResult> {
    const entered = ['nsenter', `--net=${this.state.netns}`, '--', ...argv];
    return runCommand(entered, { timeoutMs: COMMAND_MS, allowFailure });
  }

  /** Waits until a DaemonSet or Deployment has been rolled out: `daemonset/NAME`. */
  async rollout(workload: string, namespace = this.namespace): Promise<void> {
    await this.kubectl([`--namespace=${namespace}`, 'rollout', 'status', workload, `--timeout=${COMMAND_MS / 1000}s`]);
  }

  async wait(seconds: number): Promise<void> {
    await sleep(seconds * 1000);
  }

  /** Asks until the answer is true. Throws after `seconds`. Returns how many seconds it took. */
  async until(what: string, seconds: number, holds: () => Promise<boolean> | boolean): Promise<number> {
    const begin = performance.now();
    while (!(await holds())) {
      if (performance.now() - begin > seconds * 1000) throw new Error(`not within ${seconds} s: ${what}`);
      await sleep(250);
    }
    return Math.round((performance.now() - begin) / 100) / 10;
  }

  /** The Pods of a label, with their nodes, as they are now. */
  async pods(selector: string, namespace = this.namespace): Promise<readonly RunningPod[]> {
    const list = await this.kubectl([
      `--namespace=${namespace}`,
      'get',
      'pods',
      `--selector=${selector}`,
      '--output=json',
    ]);
    const { items } = JSON.parse(list) as { items: readonly PodObject[] };
    return items.map(({ metadata, spec, status }) => ({
      name: metadata.name,
      node: spec.nodeName ?? '',
      deletedAt: deletedAt(metadata),
      ready: status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false,
      restarts: status.containerStatuses?.[0]?.restartCount ?? 0,
      lastEnd: status.containerStatuses?.[0]?.lastState?.terminated?.reason,
    }));
  }

  /** The endpoints of the Services that traffic goes to, as the API server has them now. */
  async endpoints(): Promise<readonly Endpoint[]> {
    const selector = `--selector=kubernetes.io/service-name=${SERVICES.cluster}`;
    const list = await this.own(['get', 'endpointslices.discovery.k8s.io', selector, '--output=json']);
    return endpointsOf(JSON.parse(list) as EndpointSliceList);
  }

  /** Failures that the trial must expect. They are counted for themselves. */
  allow(because: string, covers: (failure: Failure) => boolean): void {
    this.allowances.push({ because, covers });
  }

  /** A condition that must hold for the trial to hold. */
  check(claim: string, holds: boolean): void {
    this.checks.push({ claim, holds });
    this.say(`${holds ? 'holds' : 'DOES NOT HOLD'}: ${claim}`);
  }

  /** A number for the page. */
  measure(what: string, value: string): void {
    this.measured[what] = value;
    this.say(`measured: ${what}: ${value}`);
  }
}

/** How much of the last 10 s something on this machine waited for a processor. Many failures of a busy machine are its own. */
function cpuPressure(): string {
  const [, percent = '?'] = /^some avg10=(\S+)/.exec(readFileSync('/proc/pressure/cpu', 'utf8')) ?? [];
  return `CPU pressure ${percent}%`;
}

interface RunningPod {
  readonly name: string;
  readonly node: string;
  /** When its deletion was asked for, in milliseconds since 1970. */
  readonly deletedAt: number | undefined;
  readonly ready: boolean;
  /** Of its first container. */
  readonly restarts: number;
  /** Why its first container ended last: `OOMKilled`, `Error`. */
  readonly lastEnd: string | undefined;
}

interface PodMetadata {
  readonly name: string;
  /** The end of the grace period. */
  readonly deletionTimestamp?: string;
  readonly deletionGracePeriodSeconds?: number;
}

interface PodObject {
  readonly metadata: PodMetadata;
  readonly spec: { readonly nodeName?: string };
  readonly status: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly containerStatuses?: readonly {
      readonly restartCount: number;
      readonly lastState?: { readonly terminated?: { readonly reason: string } };
    }[];
  };
}

function deletedAt({ deletionTimestamp, deletionGracePeriodSeconds = 0 }: PodMetadata): number | undefined {
  if (deletionTimestamp === undefined) return undefined;
  return Date.parse(deletionTimestamp) - deletionGracePeriodSeconds * 1000;
}
