import type { NamespacedName } from '../net/names.ts';
import { type EventSink, type EventSubject, Events } from '../observe/events.ts';
import type { Log } from '../observe/log.ts';
import type { PlanWarning } from '../plan/service-plan.ts';
import type { Clock } from '../reconcile/clock.ts';

/** What --bind-address-hard-fail gives up for. */
export type RefusedServer = 'health server' | 'metrics server';

const START = 'StartKubeProxy';

/** Milliseconds that the end of the daemon waits for Events that are still to be sent. */
const GRACE_MS = 2_000;

/** Warnings of a Service's plan that hold for some nodes only; all nodes agree on the others. */
const OF_SOME_NODES: ReadonlySet<string> = new Set(['node-owns-address']);

/** The Events that a service proxy writes, in the words of kube-proxy where it has them. */
export class DaemonEvents {
  readonly #node: EventSubject;
  readonly #events: Events | undefined;

  /** @param sink undefined: there is nowhere to write them to */
  constructor(nodeName: string, sink: EventSink | undefined, clock: Clock, log: Log) {
    this.#node = { kind: 'Node', namespace: '', name: nodeName };
    if (sink !== undefined) this.#events = new Events({ sink, log, clock });
  }

  started(): void {
    const text = { type: 'Normal', reason: 'Starting', action: START, note: 'kube-ipvs-proxy is starting' } as const;
    this.#events?.record(this.#node, text);
  }

  serverRefused(server: RefusedServer, note: string): void {
    const reason = server === 'health server' ? 'FailedToStartProxierHealthcheck' : 'FailedToStartMetricServer';
    this.#events?.record(this.#node, { type: 'Warning', reason, action: START, note });
  }

  serviceHealthRefused(namespace: string, name: string, note: string): void {
    const subject: EventSubject = { kind: 'Service', namespace, name };
    const reason = 'FailedToStartServiceHealthcheck';
    this.#events?.record(subject, { type: 'Warning', reason, action: 'Listen', note });
  }

  serviceWarning(service: NamespacedName, { reason, message }: PlanWarning): void {
    const [namespace = '', name = ''] = service.split('/');
    this.#events?.record(
      { kind: 'Service', namespace, name },
      {
        type: 'Warning',
        reason: eventReason(reason),
        action: 'ProgramService',
        note: message,
        shared: !OF_SOME_NODES.has(reason),
      },
    );
  }

  async close(): Promise<void> {
    await this.#events?.close(GRACE_MS);
  }
}

/** "node-owns-address" is NodeOwnsAddress in an Event. */
export function eventReason(word: string): string {
  return word.replace(/(^|-)([a-z])/g, (_match, _dash, letter: string) => letter.toUpperCase());
}
