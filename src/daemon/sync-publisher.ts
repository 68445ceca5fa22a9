import type { Kernel, KernelCounters } from '../kernel/kernel.ts';
import type { Cluster } from '../model/cluster.ts';
import type { IpFamily } from '../net/ip.ts';
import type { Log } from '../observe/log.ts';
import type { ProxyHealth } from '../observe/health.ts';
import type { ProxyMetrics } from '../observe/proxy-metrics.ts';
import type { ServiceHealthCheck, ServiceHealthServers } from '../observe/service-health-servers.ts';
import type { NodePlan } from '../plan/node-plan.ts';
import { nodePortAddresses } from '../plan/node-port-addresses.ts';
import type { PlanConfig } from '../plan/plan-config.ts';
import { SET_ROLES } from '../plan/set-names.ts';
import type { SyncObserver, SyncReport } from '../reconcile/sync-report.ts';

export interface SyncPublisherOptions {
  readonly planConfig: PlanConfig;
  readonly families: readonly IpFamily[];
  readonly kernel: Kernel;
  readonly cluster: Pick<Cluster, 'pending'>;
  readonly plan: () => NodePlan;
  readonly metrics: ProxyMetrics;
  readonly health: ProxyHealth;
  readonly serviceHealth: ServiceHealthServers;
  readonly now: () => number;
  readonly log: Log;
  /** The first sync has succeeded: from now on this node serves. */
  readonly onServing: () => void;
}

/** Tells metrics, health and the service health checks what came of each sync. */
export class SyncPublisher implements SyncObserver {
  readonly #options: SyncPublisherOptions;
  #counted: KernelCounters;

  constructor(options: SyncPublisherOptions) {
    this.#options = options;
    this.#counted = { ...options.kernel.counters };
  }

  queued(): void {
    const { families, health, metrics, now } = this.#options;
    metrics.syncQueued(now());
    for (const family of families) health.queued(family, now());
  }

  finished(report: SyncReport): void {
    const { cluster, families, health, metrics, now, log } = this.#options;
    metrics.syncFinished(report, now());
    for (const { family, durationMs, deletedFlows } of report.flowCleanUps) {
      metrics.conntrackReconciled(family, durationMs, deletedFlows);
    }
    const { services, endpointChanges } = cluster.pending();
    metrics.setPendingChanges(services, endpointChanges);
    this.#publishTraffic();
    if (!report.ok) {
      // Another attempt is wanted from now on, also where nothing but the clock had asked for this one.
      for (const family of families) health.queued(family, now());
      return;
    }
    if (report.kind === 'first') this.#options.onServing();
    for (const family of families) health.synced(family, now());
    // Counting every object costs what the cluster costs: only the syncs that read everything anyway do it.
    if (report.kind !== 'change') this.#publishObjects();
    // So do the health checks of all services; in a full check also what could not be bound is tried again.
    if (report.kind === 'change' && !report.healthChecksChanged) return;
    this.#publishServices().catch((error: unknown) => log.error(`service health checks: ${String(error)}`));
  }

  #publishTraffic(): void {
    const { kernel, metrics } = this.#options;
    const before = this.#counted;
    const now = { ...kernel.counters };
    metrics.netlinkExchanged({
      sends: now.netlinkSends - before.netlinkSends,
      sentMessages: now.netlinkMessages - before.netlinkMessages,
      sentBytes: now.netlinkBytesSent - before.netlinkBytesSent,
      receivedBytes: now.netlinkBytesReceived - before.netlinkBytesReceived,
    });
    this.#counted = now;
  }

  #publishObjects(): void {
    const { families, metrics } = this.#options;
    const plan = this.#options.plan();
    let services = 0;
    let realServers = 0;
    const noLocal = { internal: 0, external: 0 };
    for (const service of plan.services()) {
      services += 1;
      for (const planned of service.virtualServers) realServers += planned.realServers.length;
      if (service.noLocalEndpoints.internal) noLocal.internal += 1;
      if (service.noLocalEndpoints.external) noLocal.external += 1;
    }
    let setEntries = 0;
    for (const family of families) for (const role of SET_ROLES) setEntries += plan.entries(role, family).size;
    const { virtualServerCount: virtualServers, addressCount: addresses } = plan;
    metrics.setObjects({ services, virtualServers, realServers, addresses, setEntries });
    for (const family of families) metrics.setNoLocalEndpoints(family, noLocal.internal, noLocal.external);
  }

  async #publishServices(): Promise<void> {
    const { serviceHealth, kernel, planConfig, families } = this.#options;
    const checks: ServiceHealthCheck[] = [];
    for (const [service, healthCheck] of this.#options.plan().healthChecks) {
      const [namespace = '', name = ''] = service.split('/');
      checks.push({ namespace, name, ...healthCheck });
    }
    if (checks.length === 0 || planConfig.nodePortAddresses.length === 0) return serviceHealth.sync(checks, 'all');
    const interfaceAddresses = (await kernel.getNodeAddresses()).map(({ address }) => address);
    const selected = families.flatMap((family) => nodePortAddresses(family, { interfaceAddresses }, planConfig));
    return serviceHealth.sync(checks, selected.length === 0 ? 'all' : selected);
  }
}
