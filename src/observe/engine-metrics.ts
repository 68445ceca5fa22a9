import { IP_FAMILIES, familyLabel } from '../base/ip.ts';
import { type EngineReport, noCounts } from '../userspace/engine-report.ts';
import { type MetricSet, setTotal } from './metric-set.ts';
import type { PROXY_METRICS } from './metric-table.ts';

/** What the user-space engines have counted; undefined while none runs. */
export interface EngineReports {
  /** The sums of all engines. */
  readonly all: EngineReport | undefined;
  /** The engine of node ports at loopback addresses. */
  readonly local: EngineReport | undefined;
}

/** Sets the metrics of the engines; without one, all are 0. */
export function setEngineMetrics(metrics: MetricSet<typeof PROXY_METRICS>, { all, local }: EngineReports): void {
  const { totals = noCounts(), listening = { 4: 0, 6: 0 }, refusedListeners = [] } = all ?? {};
  for (const family of IP_FAMILIES) {
    const labels = { ip_family: familyLabel(family) };
    metrics.kubeproxy_nftables_localhost_nodeport_listeners.set(labels, local?.listening[family] ?? 0);
  }
  metrics.kubeipvs_userspace_listeners.set({ state: 'listening' }, listening[4] + listening[6]);
  metrics.kubeipvs_userspace_listeners.set({ state: 'refused' }, refusedListeners.length);
  metrics.kubeipvs_userspace_active_connections.set(totals.active);
  setTotal(metrics.kubeipvs_userspace_connections_total, totals.connections);
  setTotal(metrics.kubeipvs_userspace_refused_total, totals.refused);
  setTotal(metrics.kubeipvs_userspace_failed_connects_total, totals.failedConnects);
  setTotal(metrics.kubeipvs_userspace_failed_connections_total, totals.failedConnections);
  setTotal(metrics.kubeipvs_userspace_dropped_datagrams_total, totals.droppedDatagrams);
  metrics.kubeipvs_userspace_bytes_total.reset();
  metrics.kubeipvs_userspace_bytes_total.inc({ direction: 'in' }, totals.bytesIn);
  metrics.kubeipvs_userspace_bytes_total.inc({ direction: 'out' }, totals.bytesOut);
}
