import type { FeatureGate } from '../config/feature-gates.ts';
import { GIT_VERSION, VERSION } from '../config/version.ts';
import { type IpFamily, familyLabel } from '../net/ip.ts';
import { EventLoopLag } from './event-loop-lag.ts';
import { type MetricSet, makeMetrics } from './metric-set.ts';
import { PROXY_METRICS } from './metric-table.ts';
import { measureProcess } from './process-metrics.ts';
import { type ServicePortTraffic, trafficText } from './service-traffic.ts';
import { textPieces } from './text-pieces.ts';

/** What metrics want to know of a finished sync; times in milliseconds. */
export interface SyncObservation {
  readonly kind: 'first' | 'full' | 'change';
  /** The kernel could be read and written. */
  readonly ok: boolean;
  readonly durationMs: number;
  /** How often each kind of operation was attempted. */
  readonly operations: ReadonlyMap<string, number>;
  readonly failures: readonly { readonly op: { readonly kind: string } }[];
  /** Operations of a full check that undo somebody else's doing. */
  readonly drift: ReadonlyMap<string, number>;
  readonly rulesRepaired: boolean;
  readonly draining: number;
  /** How long the endpoint changes now in force took, each from its making. */
  readonly programmingMs: readonly number[];
}

/** How many objects should be in force. */
export interface ObjectCounts {
  readonly services: number;
  readonly virtualServers: number;
  readonly realServers: number;
  readonly addresses: number;
  readonly setEntries: number;
}

export interface ApiRequestObservation {
  readonly method: string;
  readonly host: string;
  /** HTTP status, or "<error>" when there was no answer. */
  readonly code: string;
  readonly seconds: number;
  readonly requestBytes?: number;
}

export interface NetlinkTraffic {
  readonly sentBytes: number;
  readonly sentMessages: number;
  readonly sends: number;
  readonly receivedBytes: number;
}

export type WatchStateName = 'listing' | 'watching' | 'waiting';
const WATCH_STATES: readonly WatchStateName[] = ['listing', 'watching', 'waiting'];

/** The object that an operation is about: "add-virtual-server" and "edit-virtual-server" are both about a virtual server. */
function objectOf(operation: string): string {
  const object = operation.slice(operation.indexOf('-') + 1);
  return object === 'entry' ? 'set-entry' : object;
}

/** Everything that is counted, in the words of the program; how it is exposed is nobody else's business. */
export class ProxyMetrics {
  readonly #families: readonly IpFamily[];
  readonly #metrics: MetricSet;
  readonly #registry: ReturnType<typeof makeMetrics>['registry'];
  readonly #lag = new EventLoopLag();
  #readServices: () => Promise<readonly ServicePortTraffic[]> = () => Promise.resolve([]);
  #exposing: Promise<readonly Buffer[]> | undefined;
  #readEstimation: () => Promise<boolean> = () => Promise.resolve(true);

  /**
   * @param families that this node serves, the primary one first
   * @param operations kinds of operation that there are
   */
  constructor(
    families: readonly IpFamily[],
    featureGates: readonly FeatureGate[] = [],
    operations: readonly string[] = [],
  ) {
    this.#families = families;
    const { registry, metrics } = makeMetrics(PROXY_METRICS);
    this.#registry = registry;
    this.#metrics = metrics;
    this.#setBuildInfo();
    for (const { name, stage, enabled } of featureGates) metrics.featureEnabled.set({ name, stage }, enabled ? 1 : 0);
    this.#startAtZero(operations);
  }

  /** Begins to watch the event loop; the rest needs no start. */
  start(): void {
    this.#lag.start();
  }

  stop(): void {
    this.#lag.stop();
  }

  /** A sync was asked for, or the loop began. */
  syncQueued(atMs: number): void {
    for (const family of this.#families) this.#metrics.syncQueued.set(label(family), atMs / 1000);
  }

  /** @param endedAt milliseconds since 1970 */
  syncFinished(sync: SyncObservation, endedAt: number): void {
    const kind = sync.kind === 'change' ? 'change' : 'full';
    const result = !sync.ok ? 'failed' : sync.failures.length > 0 ? 'partial' : 'ok';
    const seconds = sync.durationMs / 1000;
    this.#metrics.syncs.inc({ kind, result });
    this.#metrics.syncSeconds.observe({ kind }, seconds);
    for (const family of this.#families) {
      this.#metrics.syncDuration.observe(label(family), seconds);
      if (sync.ok) this.#metrics.syncLast.set(label(family), endedAt / 1000);
    }
    this.#countOperations(sync);
    if (!sync.ok) return;
    this.#metrics.draining.set(sync.draining);
    const [first] = this.#families;
    if (first === undefined) return;
    for (const ms of sync.programmingMs) this.#metrics.networkProgramming.observe(label(first), ms / 1000);
  }

  /** @param objects that an event of EndpointSlices brought: a list brings many */
  endpointChanged(objects = 1): void {
    this.#metrics.endpointChanges.inc(objects);
  }

  serviceChanged(objects = 1): void {
    this.#metrics.serviceChanges.inc(objects);
  }

  setPendingChanges(services: number, endpoints: number): void {
    this.#metrics.serviceChangesPending.set(services);
    this.#metrics.endpointChangesPending.set(endpoints);
  }

  /** How many Services have a Local policy and endpoints, but none here. */
  setNoLocalEndpoints(family: IpFamily, internal: number, external: number): void {
    this.#metrics.noLocalEndpoints.set({ traffic_policy: 'internal', ...label(family) }, internal);
    this.#metrics.noLocalEndpoints.set({ traffic_policy: 'external', ...label(family) }, external);
  }

  iptablesRestoreFailed(family: IpFamily): void {
    this.#metrics.iptablesRestoreFailures.inc(label(family));
  }

  conntrackReconciled(family: IpFamily, durationMs: number, deletedFlows: number): void {
    this.#metrics.conntrackDuration.observe(label(family), durationMs / 1000);
    this.#metrics.conntrackDeleted.inc(label(family), deletedFlows);
  }

  healthzAnswered(code: number): void {
    this.#metrics.healthzAnswers.inc({ code });
  }

  livezAnswered(code: number): void {
    this.#metrics.livezAnswers.inc({ code });
  }

  apiRequestFinished({ method, host, code, seconds, requestBytes }: ApiRequestObservation): void {
    this.#metrics.apiRequests.inc({ code, method, host });
    this.#metrics.apiRequestDuration.observe({ verb: method, host }, seconds);
    if (requestBytes !== undefined) this.#metrics.apiRequestSize.observe({ verb: method, host }, requestBytes);
  }

  /** A response that is no watch was read to its end. */
  apiResponseRead(method: string, host: string, bytes: number): void {
    this.#metrics.apiResponseSize.observe({ verb: method, host }, bytes);
  }

  apiRequestRetried(method: string, host: string, code: string): void {
    this.#metrics.apiRetries.inc({ code, verb: method, host });
  }

  apiRateLimiterWaited(method: string, host: string, seconds: number): void {
    this.#metrics.apiRateLimiterDuration.observe({ verb: method, host }, seconds);
  }

  setObjects(counts: ObjectCounts): void {
    this.#metrics.objects.set({ type: 'service' }, counts.services);
    this.#metrics.objects.set({ type: 'virtual-server' }, counts.virtualServers);
    this.#metrics.objects.set({ type: 'real-server' }, counts.realServers);
    this.#metrics.objects.set({ type: 'address' }, counts.addresses);
    this.#metrics.objects.set({ type: 'set-entry' }, counts.setEntries);
  }

  setWatchState(resource: string, current: WatchStateName): void {
    for (const state of WATCH_STATES) this.#metrics.watchState.set({ resource, state }, state === current ? 1 : 0);
    this.#metrics.watchRestarts.inc({ resource, reason: 'ended' }, 0);
  }

  /** @param reason one of a few words, never a server's own text */
  watchRestarted(resource: string, reason: string): void {
    this.#metrics.watchRestarts.inc({ resource, reason });
  }

  netlinkExchanged(traffic: NetlinkTraffic): void {
    this.#metrics.netlinkSends.inc(traffic.sends);
    this.#metrics.netlinkBytes.inc({ direction: 'sent' }, traffic.sentBytes);
    this.#metrics.netlinkBytes.inc({ direction: 'received' }, traffic.receivedBytes);
    this.#metrics.netlinkMessages.inc({ direction: 'sent' }, traffic.sentMessages);
  }

  processStarted(program: string): void {
    this.#metrics.processesStarted.inc({ program });
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** Has each exposition ask for the traffic of single Services; the promise must not reject. */
  observeServices(read: () => Promise<readonly ServicePortTraffic[]>): void {
    this.#readServices = read;
  }

  /** Has each exposition ask whether the kernel brings its counters up to date. */
  observeEstimation(read: () => Promise<boolean>): void {
    this.#readEstimation = read;
  }

  /** Everything in the Prometheus text format, as UTF-8. Who asks meanwhile gets the same. */
  async expose(): Promise<readonly Buffer[]> {
    this.#exposing ??= this.#expose().finally(() => {
      this.#exposing = undefined;
    });
    return await this.#exposing;
  }

  async #expose(): Promise<readonly Buffer[]> {
    const ports = await this.#readServices();
    await this.#setEstimation();
    measureProcess(this.#metrics);
    this.#metrics.eventLoopLag.set(this.#lag.takeMax());
    const own = await this.#registry.metrics();
    return [Buffer.from(own), ...(await textPieces(trafficText(ports)))];
  }

  /** Where it cannot be read there is nothing to tell. */
  async #setEstimation(): Promise<void> {
    try {
      this.#metrics.estimationEnabled.set((await this.#readEstimation()) ? 1 : 0);
    } catch {
      this.#metrics.estimationEnabled.remove();
    }
  }

  #countOperations({ operations, failures, drift, rulesRepaired }: SyncObservation): void {
    const failed = new Map<string, number>();
    for (const { op } of failures) failed.set(op.kind, (failed.get(op.kind) ?? 0) + 1);
    for (const [operation, attempted] of operations) {
      const done = attempted - (failed.get(operation) ?? 0);
      this.#metrics.operations.inc({ operation, outcome: 'done' }, Math.max(0, done));
    }
    for (const [operation, count] of failed) this.#metrics.operations.inc({ operation, outcome: 'failed' }, count);
    for (const [operation, count] of drift) this.#metrics.driftRepaired.inc({ object: objectOf(operation) }, count);
    if (rulesRepaired) this.#metrics.rulesRepaired.inc();
  }

  #setBuildInfo(): void {
    const [major = '', minor = ''] = VERSION.split('.');
    this.#metrics.buildInfo.set(
      {
        major,
        minor,
        git_version: GIT_VERSION,
        git_commit: '',
        git_tree_state: '',
        build_date: '',
        go_version: '',
        compiler: `node ${process.version}`,
        platform: `${process.platform}/${process.arch === 'x64' ? 'amd64' : process.arch}`,
      },
      1,
    );
  }

  /** An alert on a rate needs the counter before the first failure. */
  #startAtZero(operations: readonly string[]): void {
    for (const operation of operations) {
      for (const outcome of ['done', 'failed']) this.#metrics.operations.inc({ operation, outcome }, 0);
      this.#metrics.driftRepaired.inc({ object: objectOf(operation) }, 0);
    }
    for (const code of [200, 503]) {
      this.#metrics.healthzAnswers.inc({ code }, 0);
      this.#metrics.livezAnswers.inc({ code }, 0);
    }
    for (const kind of ['full', 'change']) {
      for (const result of ['ok', 'partial', 'failed']) this.#metrics.syncs.inc({ kind, result }, 0);
    }
    for (const family of this.#families) {
      this.#metrics.iptablesRestoreFailures.inc(label(family), 0);
      this.#metrics.conntrackDeleted.inc(label(family), 0);
      this.setNoLocalEndpoints(family, 0, 0);
    }
  }
}

function label(family: IpFamily): { ip_family: string } {
  return { ip_family: familyLabel(family) };
}
