import type { Kernel } from '../../kernel/kernel.ts';
import { KernelError, TABLE_OWNED, isMissingModule } from '../../kernel/kernel-error.ts';
import type { Cluster } from '../../model/cluster.ts';
import { errorText } from '../../base/text/error-text.ts';
import type { IpFamily } from '../../base/ip.ts';
import { splitName } from '../../base/service/names.ts';
import type { Log } from '../../observe/log/log.ts';
import type { ProxyHealth } from '../../observe/health.ts';
import type { ProxyMetrics } from '../../observe/proxy-metrics.ts';
import type { ListenOn, ServiceHealthServers } from '../../observe/service-health-servers.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import { TOO_MANY_SERVERS } from '../../plan/service-limit.ts';
import { ownServers } from '../../plan/service-plan.ts';
import type { LocalNodePorts } from './local-node-ports.ts';
import type { History } from '../questions/history.ts';
import type { Clock } from '../../reconcile/timing/clock.ts';
import { familyOfOp } from '../../state/op.ts';
import type { DirectPod } from '../../state/pod-network.ts';
import type { SyncObserver, SyncReport } from '../../state/sync-report.ts';

export interface SyncPublisherOptions {
  readonly families: readonly IpFamily[];
  readonly kernel: Kernel;
  readonly cluster: Pick<Cluster, 'pending'>;
  readonly plan: () => NodePlan;
  readonly metrics: ProxyMetrics;
  readonly health: ProxyHealth;
  readonly history: Pick<History, 'finished'>;
  readonly serviceHealth: ServiceHealthServers;
  /** Returns where health check ports listen. */
  readonly listenOn: () => ListenOn;
  readonly clock: Pick<Clock, 'now' | 'wallNow'>;
  readonly log: Log;
  /** Called when the first sync has succeeded. */
  readonly onServing: () => void;
  /** Called with the Pods to prepare after each sync, and whether it read everything; absent without --dsr-prepare-pods. */
  readonly preparePods?: (wanted: readonly DirectPod[], full: boolean) => void;
  readonly localNodePorts?: Pick<LocalNodePorts, 'publish'>;
  /** Called when kube-ipvs0 was missing and was created again. */
  readonly onDeviceMade: () => void;
}

/** Passes the result of each sync to metrics, health and the service health checks. */
export class SyncPublisher implements SyncObserver {
  readonly #options: SyncPublisherOptions;

  constructor(options: SyncPublisherOptions) {
    this.#options = options;
  }

  queued(): void {
    const { health, metrics, clock } = this.#options;
    metrics.syncQueued(clock.wallNow());
    health.queued(clock.now());
  }

  finished(report: SyncReport): void {
    const { cluster, health, metrics, clock, log } = this.#options;
    this.#options.history.finished(report);
    metrics.syncFinished(report, clock.wallNow());
    // Counted in every mode, and served where kube-proxy has the metric.
    for (const family of failedFamilies(report, this.#options.families)) metrics.nftablesSyncFailed(family);
    for (const { family, durationMs, deletedFlows } of report.flowCleanUps) {
      metrics.conntrackReconciled(family, durationMs, deletedFlows);
    }
    metrics.setPendingChanges(cluster.pending());
    metrics.setNetlinkCounters(this.#options.kernel.counters);
    if (report.kind === 'full') health.setProblems(report.node.problems);
    if (report.node.deviceMade) this.#options.onDeviceMade();
    if (!report.ok) {
      // The sync will be retried. Count it as requested from now on, even if it was a periodic one.
      health.queued(clock.now());
      if (report.error !== undefined) health.failed(report.error.message, isNodeUnable(report));
      return;
    }
    void this.#options.localNodePorts?.publish(this.#options.plan().takeLocalNodePorts());
    this.#options.preparePods?.([...this.#options.plan().directPods()], report.kind !== 'change');
    if (report.kind === 'first') this.#options.onServing();
    health.synced(clock.now());
    // The cost of counting grows with the cluster, so objects are counted only after syncs that read everything.
    if (report.kind !== 'change') this.#publishObjects();
    // Publishing also grows with the cluster. After a full check, it retries ports that could not be bound.
    if (report.kind === 'change' && !report.healthChecksChanged) return;
    this.#publishServices().catch((error: unknown) =>
      log.error(`failed to update service health checks; the next full check tries again: ${errorText(error)}`),
    );
  }

  #publishObjects(): void {
    const { families, metrics } = this.#options;
    const plan = this.#options.plan();
    const { virtualServerCount, addressCount: address } = plan;
    const counts = { service: 0, 'virtual-server': virtualServerCount, 'real-server': 0, address, 'set-entry': 0 };
    let overLimit = 0;
    const noLocalEndpoints = { 4: { internal: 0, external: 0 }, 6: { internal: 0, external: 0 } };
    for (const service of plan.services()) {
      counts.service += 1;
      for (const planned of service.virtualServers) counts['real-server'] += ownServers(planned).length;
      if (service.warnings.some(({ reason }) => reason === TOO_MANY_SERVERS)) overLimit += 1;
      for (const family of service.noLocalEndpoints.internal) noLocalEndpoints[family].internal += 1;
      for (const family of service.noLocalEndpoints.external) noLocalEndpoints[family].external += 1;
    }
    for (const family of families) {
      for (const role of plan.roles) counts['set-entry'] += plan.entries(role, family).size;
      metrics.setNoLocalEndpoints(family, noLocalEndpoints[family]);
    }
    metrics.setObjects(counts);
    metrics.setServicesOverLimit(overLimit);
  }

  async #publishServices(): Promise<void> {
    const { serviceHealth, listenOn } = this.#options;
    const checks = Array.from(this.#options.plan().healthChecks, ([service, check]) => ({
      ...splitName(service),
      ...check,
    }));
    await serviceHealth.sync(checks, listenOn());
  }
}

/** Returns the families of which a sync could not write something. */
function failedFamilies({ ok, failures }: SyncReport, families: readonly IpFamily[]): Iterable<IpFamily> {
  return ok ? new Set(failures.map(({ op }) => familyOfOp(op))) : families;
}

/** Whether neither a retry nor a restart helps until somebody changes the node. */
function isNodeUnable({ error, failures }: SyncReport): boolean {
  if (isMissingModule(error) || (error instanceof KernelError && error.code === TABLE_OWNED)) return true;
  return failures.some(({ code }) => code === TABLE_OWNED);
}
