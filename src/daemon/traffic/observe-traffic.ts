import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Cluster } from '../../model/cluster.ts';
import type { Log } from '../../observe/log/log.ts';
import type { ProxyMetrics } from '../../observe/proxy-metrics.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import { ServiceMetrics } from './service-metrics.ts';

interface TrafficOptions {
  readonly config: Pick<
    ProxyConfig,
    'serviceMetrics' | 'serviceMetricsSelector' | 'serviceMetricsLimit' | 'serviceMetricsRealServers'
  >;
  readonly kernel: Kernel;
  readonly metrics: ProxyMetrics;
  readonly cluster: Pick<Cluster, 'definition'>;
  readonly plan: () => Pick<NodePlan, 'services'>;
  readonly log: Log;
}

/** Lets each scrape read the traffic of the node, and of the Services that are selected, from the kernel. */
export function observeTraffic({ config, kernel, metrics, cluster, plan, log }: TrafficOptions): void {
  metrics.observe({ totals: () => kernel.getTrafficTotals() });
  const { serviceMetrics: all, serviceMetricsSelector: selector } = config;
  if (!all && selector === undefined) return;
  const services = new ServiceMetrics({
    kernel,
    plan,
    isMeasured: (service) => all || cluster.definition(service)?.measured === true,
    limit: config.serviceMetricsLimit,
    realServers: config.serviceMetricsRealServers,
    log,
  });
  metrics.observe({ services: () => services.read() });
}
