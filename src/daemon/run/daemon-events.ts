import { type NamespacedName, splitName } from '../../base/names.ts';
import { type EventSink, type EventSubject, Events } from '../../observe/events.ts';
import type { Log } from '../../observe/log.ts';
import type { PlanWarning } from '../../plan/service-plan.ts';
import type { Clock } from '../../reconcile/clock.ts';

/** A server that must bind its port if --bind-address-hard-fail is set. */
export type RefusedServer = 'health server' | 'metrics server';

const START = 'StartKubeProxy';

/** Milliseconds that shutdown waits for pending Events. */
const GRACE_MS = 2_000;

/** Reasons of Service warnings that depend on the node. All nodes emit the other warnings identically. */
const OF_SOME_NODES: ReadonlySet<string> = new Set(['node-owns-address']);

/** Writes the Events of a service proxy. Uses kube-proxy's reasons where kube-proxy has such an Event. */
export class DaemonEvents {
  readonly #node: EventSubject;
  readonly #events: Events | undefined;

  /** @param sink undefined: no Events are written */
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

  serviceWarning(service: NamespacedName, { reason, message: note }: PlanWarning): void {
    const subject: EventSubject = { kind: 'Service', ...splitName(service) };
    // Converts "node-owns-address" to "NodeOwnsAddress", the form of Event reasons.
    const camel = reason.replace(/(^|-)([a-z])/g, (_match, _dash, letter: string) => letter.toUpperCase());
    const shared = !OF_SOME_NODES.has(reason);
    this.#events?.record(subject, { type: 'Warning', reason: camel, action: 'ProgramService', note, shared });
  }

  async close(): Promise<void> {
    await this.#events?.close(GRACE_MS);
  }
}
