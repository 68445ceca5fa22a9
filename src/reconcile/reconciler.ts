import type { NamespacedName } from '../base/service/names.ts';
import { Yielder } from '../base/yielder.ts';
import { type HealthCheckAddresses, healthCheckAddresses } from '../plan/service/health-check.ts';
import type { NodePlan } from '../plan/node/node-plan.ts';
import type { SyncObserver } from '../state/sync-report.ts';
import { Answers } from './answers/answers.ts';
import { changeSync } from './sync/change-sync.ts';
import { ConflictReport } from './desired/conflict-report.ts';
import { KUBERNETES_SERVICE } from './desired/desired-state.ts';
import { firstSync } from './sync/first-sync.ts';
import { fullSync } from './sync/full-sync.ts';
import { NO_SETTINGS } from './node/node-settings.ts';
import { type SyncParts, type SyncPartsOptions, syncParts } from './sync/sync-parts.ts';
import { SyncProgress } from './sync/sync-progress.ts';
import { SyncLog } from './sync-log.ts';
import { type NextRun, SyncTimer, type RequestedSync } from './timing/sync-timer.ts';

export interface ReconcilerOptions extends SyncPartsOptions {
  readonly minSyncPeriodMs: number;
  readonly observer: SyncObserver;
}

/**
 * Connects triggers, syncs and reports. Between syncs it keeps the desired state, failed operations and draining real
 * servers, but never a copy of the kernel's state.
 */
export class Reconciler {
  /** Answers questions, beside the syncs. */
  readonly answers: Answers;
  readonly #options: ReconcilerOptions;
  readonly #parts: SyncParts;
  readonly #timer: SyncTimer;
  readonly #conflicts: ConflictReport;
  readonly #syncLog: SyncLog;

  constructor(options: ReconcilerOptions) {
    const { clock, log, minSyncPeriodMs: minPeriodMs } = options;
    this.#options = options;
    this.#syncLog = new SyncLog(log, options.kernel.mode);
    this.#conflicts = new ConflictReport(log, options.onWarning);
    this.#timer = new SyncTimer({ clock, minPeriodMs, run: (wanted) => this.#run(wanted) });
    const syncPending = (): Promise<void> => this.#syncPending();
    this.#parts = syncParts(options, {
      requestChange: () => this.#request('change'),
      runPendingChanges: () => this.#timer.runPendingBetweenSteps(syncPending),
      awaitWhileServing: (work) => this.#timer.awaitWhileServing(work, syncPending),
    });
    const { cluster, nodeSettings: settings = NO_SETTINGS } = options;
    this.answers = new Answers({ ...this.#parts, cluster, settings });
  }

  /** The merged plan, for reading only. Health checks and metrics are derived from it. */
  get plan(): NodePlan {
    return this.#parts.desired.plan;
  }

  /** Where the health check ports of Services listen. */
  get healthCheckAddresses(): HealthCheckAddresses {
    const { desired, config } = this.#parts;
    return healthCheckAddresses(desired.nodeView(), config);
  }

  /** Whether the first sync has succeeded. */
  get started(): boolean {
    return this.#parts.schedule.started;
  }

  get syncing(): boolean {
    return this.#timer.running;
  }

  /** The draining real servers, the failing operations, and when the next full check is due, in ms of the clock. */
  get standing() {
    const { ledger, retries, schedule } = this.#parts;
    return { draining: ledger.draining(), failing: retries.failing(), fullCheckDueAt: schedule.fullCheckDueAt };
  }

  /**
   * Must be called after a change of the cluster or node. Until all Services and EndpointSlices are listed, it only
   * adds the missing parts of `default/kubernetes`, as soon as that service is known.
   */
  clusterChanged(): void {
    const { cluster } = this.#options;
    if (cluster.synced()) this.#request('change');
    else if (cluster.hasEndpoints(KUBERNETES_SERVICE)) this.#parts.bootstrap.start();
  }

  /** Must be called when what is known of endpoints of these Services has changed. */
  endpointsJudged(services: Iterable<NamespacedName>): void {
    this.#parts.desired.endpointsJudged(services);
    if (this.#parts.schedule.started) this.#request('change');
  }

  /**
   * Must be called after an interface address was added or removed. Causes a read of all addresses; services are
   * planned again only if usable addresses changed (each new pod adds an interface with a link-local address).
   */
  nodeAddressesChanged(): void {
    const { addresses, schedule } = this.#parts;
    addresses.changed();
    if (schedule.started) this.#request('change');
  }

  /** Must be called when something that all services need, such as kube-ipvs0, was removed. Starts a full check. */
  kernelStateLost(reason: string): void {
    if (!this.#parts.schedule.started) return;
    this.#options.log.warn(`${reason}: full check started`);
    this.#request('full');
  }

  /** Waits for the bootstrap, if it was started. */
  async bootstrapped(): Promise<void> {
    await this.#parts.bootstrap.wait();
  }

  /** Waits for the running sync, rule check and bootstrap, and prevents others. The kernel keeps its state. */
  async stop(): Promise<void> {
    await this.#timer.stop();
    await this.#parts.rules.stop();
    await this.#parts.bootstrap.stop();
  }

  #request(wanted: RequestedSync): void {
    this.#options.observer.queued();
    this.#timer.request(wanted);
  }

  async #run(wanted: RequestedSync): Promise<NextRun> {
    const { bootstrap, schedule } = this.#parts;
    await bootstrap.wait();
    return await this.#complete(new SyncProgress(schedule.kindOf(wanted)));
  }

  /** Runs a change sync in the middle of a full check. It has its own report. */
  async #syncPending(): Promise<void> {
    const progress = new SyncProgress('change');
    await this.#complete(progress);
    if (progress.error !== undefined) throw progress.error;
  }

  /** Runs and reports a sync. Returns when to run the next one. */
  async #complete(progress: SyncProgress): Promise<NextRun> {
    const { clock, retries, schedule, addresses, ledger, udp, verified } = this.#parts;
    try {
      await this.#sync(progress);
      if (progress.stopped !== undefined) throw new Error(progress.stopped);
      schedule.succeeded(progress.kind);
      retries.settle(progress.retried);
    } catch (thrown) {
      progress.error = thrown instanceof Error ? thrown : new Error(String(thrown));
      schedule.failed();
      addresses.changed();
      retries.reschedule(progress.retried, clock.now());
    }
    if (progress.error !== undefined || progress.failures.length > 0) verified.forget();
    const next = schedule.next(Math.min(retries.dueAt, ledger.dueAt, udp.dueAt));
    const report = progress.report(ledger.servers);
    this.#syncLog.report(report, next.inMs);
    this.#options.observer.finished(report);
    return next;
  }

  async #sync(progress: SyncProgress): Promise<void> {
    const yielder = new Yielder();
    const sync = { first: firstSync, change: changeSync, full: fullSync }[progress.kind];
    await sync(this.#parts, progress, yielder);
    this.#conflicts.update(this.plan);
    // Yield before the report, which also iterates over all services and operations.
    await yielder.yieldIfDue();
  }
}
