import { IP_FAMILIES, familyLabel } from '../base/ip.ts';
import { type EngineReport, noCounts } from './engine-report.ts';

interface Gauge<L> {
  set(labels: L, value: number): void;
}

interface Counter<L> {
  reset(): void;
  inc(labels: L, value: number): void;
}

type NoLabels = Readonly<Record<string, never>>;

/** The metrics of the engine (src/observe/metric-table.ts). */
interface EngineMetrics {
  readonly kubeproxy_nftables_localhost_nodeport_listeners: Gauge<{ ip_family: string }>;
  readonly kubeipvs_userspace_listeners: Gauge<{ state: string }>;
  readonly kubeipvs_userspace_active_connections: Gauge<NoLabels>;
  readonly kubeipvs_userspace_connections_total: Counter<NoLabels>;
  readonly kubeipvs_userspace_refused_total: Counter<NoLabels>;
  readonly kubeipvs_userspace_failed_connects_total: Counter<NoLabels>;
  readonly kubeipvs_userspace_failed_connections_total: Counter<NoLabels>;
  readonly kubeipvs_userspace_dropped_datagrams_total: Counter<NoLabels>;
  readonly kubeipvs_userspace_bytes_total: Counter<{ direction: string }>;
}

/**
 * Sets the metrics of the engines; without one, all are 0.
 *
 * @param all the sums of all engines
 * @param local that of node ports at loopback addresses
 */
export function setEngineMetrics(
  metrics: EngineMetrics,
  all: EngineReport | undefined,
  local: EngineReport | undefined,
): void {
  const { totals = noCounts(), listening = { 4: 0, 6: 0 }, refusedListeners = [] } = all ?? {};
  for (const family of IP_FAMILIES) {
    const labels = { ip_family: familyLabel(family) };
    metrics.kubeproxy_nftables_localhost_nodeport_listeners.set(labels, local?.listening[family] ?? 0);
  }
  metrics.kubeipvs_userspace_listeners.set({ state: 'listening' }, listening[4] + listening[6]);
  metrics.kubeipvs_userspace_listeners.set({ state: 'refused' }, refusedListeners.length);
  metrics.kubeipvs_userspace_active_connections.set({}, totals.active);
  for (const [counter, value] of [
    [metrics.kubeipvs_userspace_connections_total, totals.connections],
    [metrics.kubeipvs_userspace_refused_total, totals.refused],
    [metrics.kubeipvs_userspace_failed_connects_total, totals.failedConnects],
    [metrics.kubeipvs_userspace_failed_connections_total, totals.failedConnections],
    [metrics.kubeipvs_userspace_dropped_datagrams_total, totals.droppedDatagrams],
  ] as const) {
    counter.reset();
    counter.inc({}, value);
  }
  metrics.kubeipvs_userspace_bytes_total.reset();
  metrics.kubeipvs_userspace_bytes_total.inc({ direction: 'in' }, totals.bytesIn);
  metrics.kubeipvs_userspace_bytes_total.inc({ direction: 'out' }, totals.bytesOut);
}
