import { type NamespacedName, splitName } from '../../base/service/names.ts';
import { type EventSink, type EventSubject, type EventText, Events } from '../../observe/events.ts';
import type { Log } from '../../observe/log/log.ts';
import type { CommonFault } from '../../explain/common-fault.ts';
import type { PlanWarning } from '../../plan/service-plan.ts';
import type { Clock } from '../../reconcile/timing/clock.ts';

/** A server that must bind its port if --bind-address-hard-fail is set. */
export type RefusedServer = 'health server' | 'metrics server';

const START = 'StartKubeProxy';
const PROGRAM = 'ProgramService';

const FAULT_REASONS: Readonly<Record<CommonFault['reason'], string>> = {
  'no-endpoint-used': 'NoEndpointUsed',
  'hints-ignored': 'HintsIgnored',
};
const SILENT = 'EndpointSilent';
const FAULTS: ReadonlySet<string> = new Set(Object.values(FAULT_REASONS));

/** Milliseconds that shutdown waits for pending Events. */
const GRACE_MS = 2_000;

/** Reasons of Service warnings that depend on the node. All nodes emit the other warnings identically. */
const OF_SOME_NODES: ReadonlySet<string> = new Set(['node-owns-address', 'pod-not-prepared', 'scheduler-missing']);

interface DaemonEventsOptions {
  readonly nodeName: string;
  /** Undefined: no Events are written. */
  readonly sink: EventSink | undefined;
  /** Whether Events about faults in Services are written. */
  readonly ofServices: boolean;
  readonly clock: Clock;
  readonly log: Log;
}

/** Writes the Events of a service proxy. Uses kube-proxy's reasons where kube-proxy has such an Event. */
export class DaemonEvents {
  readonly #node: EventSubject;
  readonly #ofServices: boolean;
  readonly #events: Events | undefined;

  constructor({ nodeName, sink, ofServices, clock, log }: DaemonEventsOptions) {
    this.#node = { kind: 'Node', namespace: '', name: nodeName };
    this.#ofServices = ofServices;
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

  /** Must be called when a setting below /sys could not be written. */
  sysReadOnly(note: string): void {
    this.#events?.record(this.#node, { type: 'Warning', reason: 'readOnlySysFS', action: START, note });
  }

  serviceHealthRefused(namespace: string, name: string, note: string): void {
    const subject: EventSubject = { kind: 'Service', namespace, name };
    const reason = 'FailedToStartServiceHealthcheck';
    this.#events?.record(subject, { type: 'Warning', reason, action: 'Listen', note });
  }

  /** Must be called when a node port at a loopback address cannot be served. */
  nodePortRefused(service: NamespacedName, note: string): void {
    this.#recordFault(service, { type: 'Warning', reason: 'NodePortNotServed', action: 'Listen', note });
  }

  serviceWarning(service: NamespacedName, { reason, message: note }: PlanWarning): void {
    const shared = !OF_SOME_NODES.has(reason);
    this.#recordFault(service, { type: 'Warning', reason: camelCase(reason), action: PROGRAM, note, shared });
  }

  /** @param fault undefined: it has ended; an Event of it that was not written yet is not written any more */
  serviceFault(service: NamespacedName, fault: CommonFault | undefined): void {
    this.#events?.withdraw(subjectOf(service), FAULTS);
    if (fault === undefined) return;
    const { reason, message: note } = fault;
    this.#recordFault(service, { type: 'Warning', reason: FAULT_REASONS[reason], action: PROGRAM, note, shared: true });
  }

  /** @param silent the number of silent endpoints; 0: an Event that was not written yet is not written any more */
  endpointsSilent(service: NamespacedName, silent: number, all: number): void {
    if (silent === 0) {
      this.#events?.withdraw(subjectOf(service), new Set([SILENT]));
      return;
    }
    const note = `${silent} of ${all} endpoints answer neither a node nor its clients (endpoint-check)`;
    this.#recordFault(service, { type: 'Warning', reason: SILENT, action: PROGRAM, note, shared: true });
  }

  #recordFault(service: NamespacedName, text: EventText): void {
    if (this.#ofServices) this.#events?.record(subjectOf(service), text);
  }

  async close(): Promise<void> {
    await this.#events?.close(GRACE_MS);
  }
}

function subjectOf(service: NamespacedName): EventSubject {
  return { kind: 'Service', ...splitName(service) };
}

/** Converts "node-owns-address" to "NodeOwnsAddress", the form of Event reasons. */
function camelCase(reason: string): string {
  return reason.replace(/(^|-)([a-z])/g, (_match, _dash, letter: string) => letter.toUpperCase());
}
