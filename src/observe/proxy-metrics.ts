import type { FeatureGate } from '../config/feature-gates.ts';
import { BUILD, GIT_VERSION, VERSION } from '../config/version.ts';
import { type IpFamily, familyLabel } from '../base/ip.ts';
import type { SyncReport } from '../state/sync-report.ts';
import {
  type ApiObserver,
  type RequestObservation,
  WATCH_ENDED,
  WATCH_STATES,
  type WatchObserver,
} from './api-observer.ts';
import { EventLoopLag } from './event-loop-lag.ts';
import { type MetricSet, makeMetrics } from './metric-set.ts';
import { PROXY_METRICS } from './metric-table.ts';
import { measureProcess } from './process-metrics.ts';
import { type ServicePortTraffic, trafficText } from './service-traffic.ts';
import { textPieces } from './text-pieces.ts';

/** The parts of a SyncReport that metrics use. Operation kinds are plain strings here, for use as labels. */
export type SyncObservation = Pick<SyncReport, 'kind' | 'ok' | 'durationMs' | 'draining' | 'programmingMs'> & {
  readonly operations: ReadonlyMap<string, number>;
  readonly drift: ReadonlyMap<string, number>;
  readonly failures: readonly { readonly op: { readonly kind: string } }[];
  readonly node: Omit<SyncReport['node'], 'deviceError'>;
};

/** How many objects should be in force. */
export interface ObjectCounts {
  readonly services: number;
  readonly virtualServers: number;
  readonly realServers: number;
  readonly addresses: number;
  readonly setEntries: number;
}

/** Totals since the start of the process. */
export interface NetlinkCounters {
  readonly netlinkSends: number;
  readonly netlinkMessages: number;
  readonly netlinkBytesSent: number;
  readonly netlinkBytesReceived: number;
}

/** Returns the object of an operation: "virtual-server" for "add-virtual-server" and "edit-virtual-server". */
function objectOf(operation: string): string {
  const object = operation.slice(operation.indexOf('-') + 1);
  return object === 'entry' ? 'set-entry' : object;
}

/** Records events of the program as metrics; callers do not know metric names. */
export class ProxyMetrics implements ApiObserver, WatchObserver {
  readonly #families: readonly IpFamily[];
  readonly #metrics: MetricSet;
  readonly #registry: ReturnType<typeof makeMetrics>['registry'];
  readonly #lag = new EventLoopLag();
  #readServices: () => Promise<readonly ServicePortTraffic[]> = () => Promise.resolve([]);
  #exposing: Promise<readonly Buffer[]> | undefined;
  #readEstimation: () => Promise<boolean> = () => Promise.resolve(true);

  /**
   * @param families IP families of this node, the primary one first
   * @param operations all operation kinds, whose counters start at 0
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

  /** Starts to measure event loop delays. */
  start(): void {
    this.#lag.start();
  }

  stop(): void {
    this.#lag.stop();
  }

  /** A sync was requested, or the sync loop started. */
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
    this.#countNodeFindings(sync);
    if (!sync.ok) return;
    this.#metrics.draining.set(sync.draining);
    const [first] = this.#families;
    if (first === undefined) return;
    for (const ms of sync.programmingMs) this.#metrics.networkProgramming.observe(label(first), ms / 1000);
  }

  /** @param objects number of EndpointSlices in the event: a list contains many */
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

  /** Sets the number of Services with a Local policy and endpoints, but none on this node. */
  setNoLocalEndpoints(family: IpFamily, internal: number, external: number): void {
    this.#metrics.noLocalEndpoints.set({ traffic_policy: 'internal', ...label(family) }, internal);
    this.#metrics.noLocalEndpoints.set({ traffic_policy: 'external', ...label(family) }, external);
  }

  /** Rules of a family were missing or changed, and were repaired. */
  rulesRepaired(): void {
    this.#metrics.rulesRepaired.inc();
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

  apiRequestFinished({ method, host, code, seconds, requestBytes }: RequestObservation): void {
    this.#metrics.apiRequests.inc({ code, method, host });
    this.#metrics.apiRequestDuration.observe({ verb: method, host }, seconds);
    if (requestBytes !== undefined) this.#metrics.apiRequestSize.observe({ verb: method, host }, requestBytes);
  }

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

  setWatchState(resource: string, current: (typeof WATCH_STATES)[number]): void {
    for (const state of WATCH_STATES) this.#metrics.watchState.set({ resource, state }, state === current ? 1 : 0);
    this.#metrics.watchRestarts.inc({ resource, reason: WATCH_ENDED }, 0);
  }

  watchRestarted(resource: string, reason: string): void {
    this.#metrics.watchRestarts.inc({ resource, reason });
  }

  setNetlinkCounters(totals: NetlinkCounters): void {
    const { netlinkSends, netlinkBytes, netlinkMessages } = this.#metrics;
    for (const counter of [netlinkSends, netlinkBytes, netlinkMessages]) counter.reset();
    netlinkSends.inc(totals.netlinkSends);
    netlinkBytes.inc({ direction: 'sent' }, totals.netlinkBytesSent);
    netlinkBytes.inc({ direction: 'received' }, totals.netlinkBytesReceived);
    netlinkMessages.inc({ direction: 'sent' }, totals.netlinkMessages);
  }

  processStarted(program: string): void {
    this.#metrics.processesStarted.inc({ program });
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** Sets the reader of per-service traffic, called for each exposition. It must not reject. */
  observeServices(read: () => Promise<readonly ServicePortTraffic[]>): void {
    this.#readServices = read;
  }

  /** Sets the reader that says whether the kernel updates its counters, called for each exposition. */
  observeEstimation(read: () => Promise<boolean>): void {
    this.#readEstimation = read;
  }

  /** Returns all metrics in the Prometheus text format, as UTF-8. Concurrent calls share one result. */
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

  /** Removes the metric while the setting cannot be read. */
  async #setEstimation(): Promise<void> {
    try {
      this.#metrics.estimationEnabled.set((await this.#readEstimation()) ? 1 : 0);
    } catch {
      this.#metrics.estimationEnabled.remove();
    }
  }

  #countOperations({ operations, failures, drift }: SyncObservation): void {
    const failed = new Map<string, number>();
    for (const { op } of failures) failed.set(op.kind, (failed.get(op.kind) ?? 0) + 1);
    for (const [operation, attempted] of operations) {
      const done = attempted - (failed.get(operation) ?? 0);
      this.#metrics.operations.inc({ operation, outcome: 'done' }, Math.max(0, done));
    }
    for (const [operation, count] of failed) this.#metrics.operations.inc({ operation, outcome: 'failed' }, count);
    for (const [operation, count] of drift) this.#metrics.driftRepaired.inc({ object: objectOf(operation) }, count);
  }

  #countNodeFindings({ kind, node }: SyncObservation): void {
    if (kind !== 'full') return;
    if (node.deviceMade) this.#metrics.driftRepaired.inc({ object: 'device' });
    this.#metrics.driftRepaired.inc({ object: 'setting' }, node.settingsRepaired.length);
    this.#metrics.nodeProblems.set(node.problems.length);
  }

  #setBuildInfo(): void {
    const [major = '', minor = ''] = VERSION.split('.');
    this.#metrics.buildInfo.set(
      {
        major,
        minor,
        git_version: GIT_VERSION,
        git_commit: BUILD.commit,
        git_tree_state: BUILD.treeState,
        build_date: BUILD.date,
        go_version: '',
        compiler: `node ${process.version}`,
        platform: `${process.platform}/${process.arch === 'x64' ? 'amd64' : process.arch}`,
      },
      1,
    );
  }

  /** Creates series with value 0: alerts on a rate need them before the first failure. */
  #startAtZero(operations: readonly string[]): void {
    for (const operation of operations) {
      for (const outcome of ['done', 'failed']) this.#metrics.operations.inc({ operation, outcome }, 0);
      this.#metrics.driftRepaired.inc({ object: objectOf(operation) }, 0);
    }
    for (const object of ['device', 'setting']) this.#metrics.driftRepaired.inc({ object }, 0);
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
