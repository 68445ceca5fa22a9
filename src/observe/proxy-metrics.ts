import type { FeatureGate } from '../config/value/feature-gates.ts';
import { BUILD, GIT_VERSION, VERSION } from '../config/version.ts';
import { IP_FAMILIES, type IpFamily, familyLabel } from '../base/ip.ts';
import type { ProxyMode } from '../base/proxy-mode.ts';
import type { RuleCounts } from '../state/rules/rule-counts.ts';
import type { VirtualServerStats } from '../state/server-stats.ts';
import type { SyncReport } from '../state/sync-report.ts';
import {
  type ApiObserver,
  type RequestObservation,
  WATCH_ENDED,
  WATCH_STATES,
  type WatchState,
  nextWatchState,
  type WatchObserver,
} from './api-observer.ts';
import { type EngineReports, setEngineMetrics } from './engine-metrics.ts';
import { EventLoopLag } from './event-loop-lag.ts';
import { type MetricSet, makeMetrics, setTotal } from './metric-set.ts';
import { PROXY_METRICS } from './metric-table.ts';
import { measureProcess } from './process-metrics.ts';
import { type ServicePortTraffic, textPieces, trafficText } from './service-traffic.ts';

/** The parts of a SyncReport that metrics use. Operation kinds are plain strings here, for use as labels. */
export type SyncObservation = Pick<SyncReport, 'kind' | 'ok' | 'durationMs' | 'draining' | 'programming'> & {
  readonly operations: ReadonlyMap<string, number>;
  readonly drift: readonly { readonly kind: string }[];
  readonly failures: readonly { readonly op: { readonly kind: string } }[];
  readonly node: Omit<SyncReport['node'], 'deviceError'>;
};

/** Differences of one operation, by what explains them; undefined: unexpected. */
interface ShadowCount {
  readonly operation: string;
  readonly known: string | undefined;
  readonly count: number;
}

const UNEXPECTED = 'unexpected';

/** Objects whose unexpected differences are always served, so that a query finds 0. */
const SHADOW_OBJECTS = ['virtual-server', 'real-server', 'set', 'set-entry', 'address', 'route', 'rule', 'setting'];

/** Values of the label `type` of kubeipvs_objects. */
type ObjectType = 'service' | 'virtual-server' | 'real-server' | 'address' | 'set-entry';

type NetlinkTotal = 'netlinkSends' | 'netlinkMessages' | 'netlinkBytesSent' | 'netlinkBytesReceived';

/** Returns the object of an operation: "virtual-server" for "add-virtual-server" and "edit-virtual-server". */
function objectOf(operation: string): string {
  const object = operation.slice(operation.indexOf('-') + 1);
  return object === 'entry' ? 'set-entry' : object;
}

/** What a scrape reads; nothing where a reader is absent. */
export interface MetricReaders {
  /** Traffic per Service. Must not reject. */
  readonly services?: () => Promise<readonly ServicePortTraffic[]>;
  readonly engines?: () => Promise<EngineReports>;
  /** The traffic of the node. */
  readonly totals?: () => Promise<VirtualServerStats | undefined>;
  /** Whether the kernel updates its counters. */
  readonly estimation?: () => Promise<boolean>;
  readonly endpoints?: () => Readonly<Record<string, number>>;
}

/** Records events of the program as metrics; callers do not know metric names. */
export class ProxyMetrics implements ApiObserver, WatchObserver {
  readonly #made: ReturnType<typeof makeMetrics<typeof PROXY_METRICS>>;
  readonly #metrics: MetricSet<typeof PROXY_METRICS>;
  readonly lag = new EventLoopLag();
  readonly #watchStates = new Map<string, WatchState>();
  #readers: MetricReaders = {};
  #exposing: Promise<readonly Buffer[]> | undefined;

  /**
   * @param operations all operation kinds, whose counters start at 0
   * @param mode whose metrics are served; absent: those of all modes
   */
  constructor(featureGates: readonly FeatureGate[] = [], operations: readonly string[] = [], mode?: ProxyMode) {
    this.#made = makeMetrics(PROXY_METRICS, mode);
    this.#metrics = this.#made.metrics;
    this.#setBuildInfo();
    for (const { name, stage, enabled } of featureGates) {
      this.#metrics.kubernetes_feature_enabled.set({ name, stage }, enabled ? 1 : 0);
    }
    this.#startAtZero(operations);
  }

  /** Must be called when a sync is requested or the sync loop starts. */
  syncQueued(atMs: number): void {
    const queued = this.#metrics.kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds;
    for (const family of IP_FAMILIES) queued.set(label(family), atMs / 1000);
  }

  /** @param endedAt milliseconds since 1970 */
  syncFinished(sync: SyncObservation, endedAt: number): void {
    const metrics = this.#metrics;
    const kind = sync.kind === 'change' ? 'change' : 'full';
    const result = !sync.ok ? 'failed' : sync.failures.length > 0 ? 'partial' : 'ok';
    const seconds = sync.durationMs / 1000;
    metrics.kubeipvs_sync_total.inc({ kind, result });
    metrics.kubeipvs_sync_duration_seconds.observe({ kind }, seconds);
    for (const family of IP_FAMILIES) {
      metrics.kubeproxy_sync_proxy_rules_duration_seconds.observe(label(family), seconds);
      const part = kind === 'change' ? 'partial' : 'full';
      metrics[`kubeproxy_sync_${part}_proxy_rules_duration_seconds`].observe(label(family), seconds);
      if (sync.ok) metrics.kubeproxy_sync_proxy_rules_last_timestamp_seconds.set(label(family), endedAt / 1000);
    }
    this.#countOperations(sync);
    this.#countNodeFindings(sync);
    if (!sync.ok) return;
    metrics.kubeipvs_draining_real_servers.set(sync.draining);
    for (const { family, durationMs } of sync.programming) {
      metrics.kubeproxy_network_programming_duration_seconds.observe(label(family), durationMs / 1000);
    }
  }

  /** @param objects number of EndpointSlices in the event: a list contains many */
  endpointChanged(objects = 1): void {
    this.#metrics.kubeproxy_sync_proxy_rules_endpoint_changes_total.inc(objects);
  }

  serviceChanged(objects = 1): void {
    this.#metrics.kubeproxy_sync_proxy_rules_service_changes_total.inc(objects);
  }

  setPendingChanges(pending: { readonly services: number; readonly endpointChanges: number }): void {
    this.#metrics.kubeproxy_sync_proxy_rules_service_changes_pending.set(pending.services);
    this.#metrics.kubeproxy_sync_proxy_rules_endpoint_changes_pending.set(pending.endpointChanges);
  }

  /** Sets the number of Services with a Local policy and endpoints, but none on this node. */
  setNoLocalEndpoints(family: IpFamily, services: Readonly<Record<'internal' | 'external', number>>): void {
    for (const [traffic_policy, count] of Object.entries(services)) {
      const labels = { traffic_policy, ...label(family) };
      this.#metrics.kubeproxy_sync_proxy_rules_no_local_endpoints_total.set(labels, count);
    }
  }

  /** Counts a repair of missing or changed rules of one family. */
  rulesRepaired(): void {
    this.#metrics.kubeipvs_iptables_rules_repaired_total.inc();
  }

  setServicesOverLimit(services: number): void {
    this.#metrics.kubeipvs_services_over_limit.set(services);
  }

  setOtherModesLeft(isAnyLeft: boolean): void {
    this.#metrics.kubeipvs_other_modes_left.set(isAnyLeft ? 1 : 0);
  }

  iptablesRestoreFailed(family: IpFamily): void {
    this.#metrics.kubeproxy_sync_proxy_rules_iptables_restore_failures_total.inc(label(family));
  }

  /** See ModeObserver. */
  partialRestoreFailed(family: IpFamily): void {
    this.#metrics.kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total.inc(label(family));
  }

  /** See ModeObserver. */
  rulesCounted(family: IpFamily, total: RuleCounts, last: RuleCounts): void {
    for (const table of ['nat', 'filter'] as const) {
      const labels = { table, ...label(family) };
      this.#metrics.kubeproxy_sync_proxy_rules_iptables_total.set(labels, total[table]);
      this.#metrics.kubeproxy_sync_proxy_rules_iptables_last.set(labels, last[table]);
    }
  }

  /** Must be called when a sync of nftables mode could not write all it had to. */
  nftablesSyncFailed(family: IpFamily): void {
    this.#metrics.kubeproxy_sync_proxy_rules_nftables_sync_failures_total.inc(label(family));
  }

  /** See ModeObserver. */
  cleanUpFailed(family: IpFamily): void {
    this.#metrics.kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total.inc(label(family));
  }

  conntrackReconciled(family: IpFamily, durationMs: number, deletedFlows: number): void {
    this.#metrics.kubeproxy_conntrack_reconciler_sync_duration_seconds.observe(label(family), durationMs / 1000);
    this.#metrics.kubeproxy_conntrack_reconciler_deleted_entries_total.inc(label(family), deletedFlows);
  }

  probeAnswered(probe: 'healthz' | 'livez', code: number): void {
    this.#metrics[`kubeproxy_proxy_${probe}_total`].inc({ code });
  }

  apiRequestFinished({ method: verb, host, code, seconds, requestBytes }: RequestObservation): void {
    this.#metrics.rest_client_requests_total.inc({ code, method: verb, host });
    this.#metrics.rest_client_request_duration_seconds.observe({ verb, host }, seconds);
    if (requestBytes === undefined) return;
    this.#metrics.rest_client_request_size_bytes.observe({ verb, host }, requestBytes);
  }

  apiResponseRead(verb: string, host: string, bytes: number): void {
    this.#metrics.rest_client_response_size_bytes.observe({ verb, host }, bytes);
  }

  apiRequestRetried(verb: string, host: string, code: string): void {
    this.#metrics.rest_client_request_retries_total.inc({ code, verb, host });
  }

  apiRateLimiterWaited(verb: string, host: string, seconds: number): void {
    this.#metrics.rest_client_rate_limiter_duration_seconds.observe({ verb, host }, seconds);
  }

  /** Sets how many objects should exist. */
  setObjects(counts: Readonly<Record<ObjectType, number>>): void {
    for (const [type, count] of Object.entries(counts)) this.#metrics.kubeipvs_objects.set({ type }, count);
  }

  /** The state of each watch; none with a directory of manifests. */
  get watchStates(): ReadonlyMap<string, WatchState> {
    return this.#watchStates;
  }

  setWatchState(resource: string, current: (typeof WATCH_STATES)[number]): void {
    this.#watchStates.set(resource, nextWatchState(this.#watchStates.get(resource), current, performance.now()));
    const { kubeipvs_watch_state: watchState, kubeipvs_watch_restarts_total: restarts } = this.#metrics;
    for (const state of WATCH_STATES) watchState.set({ resource, state }, state === current ? 1 : 0);
    restarts.inc({ resource, reason: WATCH_ENDED }, 0);
  }

  watchRestarted(resource: string, reason: string): void {
    this.#metrics.kubeipvs_watch_restarts_total.inc({ resource, reason });
  }

  /**
   * Sets what a shadow found. @param more differences that were not looked at @param atMs milliseconds since 1970
   */
  shadowCompared(counts: readonly ShadowCount[], more: number, atMs: number): void {
    const { kubeipvs_shadow_differences: gauge, kubeipvs_shadow_last_comparison_timestamp_seconds: last } =
      this.#metrics;
    gauge.reset();
    for (const object of SHADOW_OBJECTS) gauge.set({ object, kind: UNEXPECTED }, 0);
    if (more > 0) gauge.set({ object: 'other', kind: UNEXPECTED }, more);
    for (const { operation, known = UNEXPECTED, count } of counts) {
      gauge.inc({ object: objectOf(operation), kind: known }, count);
    }
    last.set(atMs / 1000);
  }

  /** @param totals since the start of the process */
  setNetlinkCounters(totals: Readonly<Record<NetlinkTotal, number>>): void {
    const { kubeipvs_netlink_bytes_total: bytes, kubeipvs_netlink_messages_total: messages } = this.#metrics;
    setTotal(this.#metrics.kubeipvs_netlink_sends_total, totals.netlinkSends);
    for (const counter of [bytes, messages]) counter.reset();
    bytes.inc({ direction: 'sent' }, totals.netlinkBytesSent);
    bytes.inc({ direction: 'received' }, totals.netlinkBytesReceived);
    messages.inc({ direction: 'sent' }, totals.netlinkMessages);
  }

  processStarted(program: string): void {
    this.#metrics.kubeipvs_processes_started_total.inc({ program });
  }

  /** Sets what each scrape reads, beside what was set before. */
  observe(readers: MetricReaders): void {
    this.#readers = { ...this.#readers, ...readers };
  }

  /** Must be called when the engine could not listen at a loopback address. */
  localListenerRefused(family: IpFamily): void {
    this.#metrics.kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total.inc(label(family));
  }

  endpointAsked(result: string): void {
    this.#metrics.kubeipvs_endpoint_connects_total.inc({ result });
  }

  /** Returns all metrics in the Prometheus text format, as UTF-8. Concurrent calls share one result. */
  async expose(): Promise<readonly Buffer[]> {
    this.#exposing ??= this.#expose().finally(() => {
      this.#exposing = undefined;
    });
    return await this.#exposing;
  }

  async #expose(): Promise<readonly Buffer[]> {
    const { services, engines, endpoints } = this.#readers;
    const ports = (await services?.()) ?? [];
    await this.#setEstimation();
    await this.#setTotals();
    setEngineMetrics(this.#metrics, (await engines?.()) ?? { all: undefined, local: undefined });
    measureProcess(this.#metrics);
    for (const [state, count] of Object.entries(endpoints?.() ?? {})) {
      this.#metrics.kubeipvs_checked_endpoints.set({ state }, count);
    }
    this.#metrics.kubeipvs_event_loop_lag_max_seconds.set(this.lag.takeMax());
    const own = await this.#made.registry.metrics();
    return [Buffer.from(own), ...(await textPieces(trafficText(ports)))];
  }

  /** Removes the metric while the setting cannot be read. */
  async #setEstimation(): Promise<void> {
    try {
      this.#metrics.kubeipvs_estimation_enabled.set((await this.#readers.estimation?.()) === false ? 0 : 1);
    } catch {
      this.#metrics.kubeipvs_estimation_enabled.remove();
    }
  }

  /** Removes the metrics while the kernel cannot be read. */
  async #setTotals(): Promise<void> {
    const totals = await this.#readers.totals?.().catch(() => undefined);
    const metrics = this.#metrics;
    for (const [counter, value] of [
      [metrics.kubeipvs_node_connections_total, totals?.connections],
      [metrics.kubeipvs_node_incoming_packets_total, totals?.incomingPackets],
      [metrics.kubeipvs_node_outgoing_packets_total, totals?.outgoingPackets],
      [metrics.kubeipvs_node_incoming_bytes_total, totals?.incomingBytes],
      [metrics.kubeipvs_node_outgoing_bytes_total, totals?.outgoingBytes],
    ] as const) {
      counter.remove();
      if (value !== undefined) counter.inc(value);
    }
  }

  #countOperations({ operations, failures, drift }: SyncObservation): void {
    const { kubeipvs_operations_total: counter, kubeipvs_drift_repaired_total: repaired } = this.#metrics;
    const failed = new Map<string, number>();
    for (const { op } of failures) failed.set(op.kind, (failed.get(op.kind) ?? 0) + 1);
    for (const [operation, attempted] of operations) {
      const done = attempted - (failed.get(operation) ?? 0);
      counter.inc({ operation, outcome: 'done' }, Math.max(0, done));
    }
    for (const [operation, count] of failed) counter.inc({ operation, outcome: 'failed' }, count);
    for (const { kind } of drift) repaired.inc({ object: objectOf(kind) });
  }

  #countNodeFindings({ kind, node }: SyncObservation): void {
    if (kind !== 'full') return;
    const { kubeipvs_drift_repaired_total: repaired, kubeipvs_node_problems: problems } = this.#metrics;
    if (node.deviceMade) repaired.inc({ object: 'device' });
    repaired.inc({ object: 'setting' }, node.settingsRepaired.length);
    problems.set(node.problems.length);
  }

  #setBuildInfo(): void {
    const [major = '', minor = ''] = VERSION.split('.');
    const platform = `${process.platform}/${process.arch === 'x64' ? 'amd64' : process.arch}`;
    const { commit: git_commit, treeState: git_tree_state, date: build_date } = BUILD;
    const source = { git_version: GIT_VERSION, git_commit, git_tree_state, build_date };
    const built = { go_version: '', compiler: `node ${process.version}`, platform };
    this.#metrics.kubernetes_build_info.set({ major, minor, ...source, ...built }, 1);
  }

  /** Creates series with value 0: alerts on a rate need them before the first failure. */
  #startAtZero(operations: readonly string[]): void {
    const metrics = this.#metrics;
    for (const operation of operations) {
      for (const outcome of ['done', 'failed']) metrics.kubeipvs_operations_total.inc({ operation, outcome }, 0);
      metrics.kubeipvs_drift_repaired_total.inc({ object: objectOf(operation) }, 0);
    }
    for (const object of ['device', 'setting']) metrics.kubeipvs_drift_repaired_total.inc({ object }, 0);
    for (const code of [200, 503]) {
      metrics.kubeproxy_proxy_healthz_total.inc({ code }, 0);
      metrics.kubeproxy_proxy_livez_total.inc({ code }, 0);
    }
    for (const kind of ['full', 'change']) {
      for (const result of ['ok', 'partial', 'failed']) metrics.kubeipvs_sync_total.inc({ kind, result }, 0);
    }
    for (const family of IP_FAMILIES) {
      metrics.kubeproxy_sync_proxy_rules_iptables_restore_failures_total.inc(label(family), 0);
      metrics.kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total.inc(label(family), 0);
      metrics.kubeproxy_sync_proxy_rules_nftables_sync_failures_total.inc(label(family), 0);
      metrics.kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total.inc(label(family), 0);
      metrics.kubeproxy_conntrack_reconciler_deleted_entries_total.inc(label(family), 0);
      this.setNoLocalEndpoints(family, { internal: 0, external: 0 });
    }
  }
}

function label(family: IpFamily): { ip_family: string } {
  return { ip_family: familyLabel(family) };
}
