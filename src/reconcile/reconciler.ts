import { DrainLedger } from '../diff/drain.ts';
import { diffRoutes } from '../diff/route-diff.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { Cidr } from '../net/cidr.ts';
import { isLinkLocal6 } from '../net/ip.ts';
import type { NodePlan, SetKey } from '../plan/node-plan.ts';
import { planLocalRoutes } from '../plan/local-routes.ts';
import { planRules } from '../plan/plan-rules.ts';
import type { Op } from '../state/op.ts';
import { type OpFailure, formatFailure } from '../state/outcome.ts';
import { transactionInSteps } from '../state/transaction.ts';
import { addAhead, missingSets } from './add-ahead.ts';
import { Breather } from '../net/breather.ts';
import { changeOps, denyOps, withoutReading } from './change-sync.ts';
import type { Clock } from './clock.ts';
import { ConflictReport } from './conflict-report.ts';
import { applyGuarded } from './deny-guard.ts';
import { DesiredState, type DesiredStateOptions, KUBERNETES_SERVICE, type Refresh } from './desired-state.ts';
import { type CheckPiece, fullCheck } from './full-check.ts';
import { readVirtualServers } from './read-virtual-servers.ts';
import { RetryQueue } from './retry-queue.ts';
import { Draining } from './draining.ts';
import { SyncProgress } from './sync-progress.ts';
import { type SyncKind, type SyncObserver, logReport, logWrongSets } from './sync-report.ts';
import { type NextRun, SyncTimer, type Wanted } from './sync-timer.ts';
import { staleFlows } from './udp-clean-up.ts';

export interface ReconcilerOptions extends DesiredStateOptions {
  readonly kernel: Kernel;
  /** Virtual servers at these addresses are never touched. */
  readonly excludeCidrs: readonly Cidr[];
  readonly syncPeriodMs: number;
  readonly minSyncPeriodMs: number;
  /** 0: a real server drains as long as it has connections. */
  readonly drainTimeoutMs: number;
  readonly clock: Clock;
  readonly observer: SyncObserver;
}

/**
 * The driver: trigger, read, diff, apply, report, retry. Everything it decides with is pure; every effect is the kernel's. What it
 * remembers between syncs is the desired state, what failed, and what drains; never a shadow of the kernel.
 */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #desired: DesiredState;
  readonly #ledger: DrainLedger;
  readonly #retries: RetryQueue;
  readonly #timer: SyncTimer;
  readonly #draining: Draining;
  readonly #conflicts: ConflictReport;
  #sizes = new Map<SetKey, number>();
  #started = false;
  #ahead: Promise<void> | undefined;
  #nodeAddressesStale = true;
  #fullCheckDueAt = 0;
  #failedSyncs = 0;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#desired = new DesiredState(options);
    this.#ledger = new DrainLedger(options.drainTimeoutMs);
    this.#draining = new Draining(this.#ledger);
    this.#conflicts = new ConflictReport(options.log, options.onWarning);
    this.#retries = new RetryQueue(options.syncPeriodMs);
    this.#timer = new SyncTimer({
      clock: options.clock,
      minPeriodMs: options.minSyncPeriodMs,
      run: (wanted) => this.#run(wanted),
    });
  }

  /** The merged plan, to read: health checks and metrics are made from it. */
  get plan(): NodePlan {
    return this.#desired.plan;
  }

  /**
   * The cluster or the node changed. Before services and slices are both fully listed nothing is written but what
   * `default/kubernetes` lacks, once it is known.
   */
  clusterChanged(): void {
    const { cluster } = this.#options;
    if (cluster.synced()) this.#request('change');
    else if (cluster.hasEndpoints(KUBERNETES_SERVICE)) this.#ahead ??= this.#addAhead();
  }

  /**
   * An address of an interface came or went: the addresses are read again at once, and no more than that unless they
   * matter (each new pod brings an interface with a link-local address of its own).
   */
  nodeAddressesChanged(): void {
    this.#nodeAddressesStale = true;
    if (this.#started) this.#request('change');
  }

  /** What is known of `default/kubernetes` before the lists has been programmed, or there is nothing of it. */
  async programmedAhead(): Promise<void> {
    await this.#ahead;
  }

  /** Waits for the sync under way; the kernel keeps what it holds. */
  async stop(): Promise<void> {
    await this.#timer.stop();
    // Nothing more is begun, whatever the source still says.
    await (this.#ahead ??= Promise.resolve());
  }

  /** The first sync comes back to all of it, and is the one to complain. */
  async #addAhead(): Promise<void> {
    const { kernel, plan: config, log } = this.#options;
    const startedAt = performance.now();
    try {
      await this.#readNodeAddresses();
      this.#desired.refreshFirst(KUBERNETES_SERVICE);
      const reason = await addAhead(kernel, config, this.plan);
      const fields = { ms: Math.round(performance.now() - startedAt), sinceStartMs: Math.round(performance.now()) };
      if (reason === undefined) log.info(`${KUBERNETES_SERVICE} is served; the rest is being listed`, fields);
      else log.debug(2, `${KUBERNETES_SERVICE} was not programmed ahead of the rest: ${reason}`, fields);
    } catch (error) {
      log.debug(2, `${KUBERNETES_SERVICE} was not programmed ahead of the rest: ${String(error)}`);
    }
  }

  #request(wanted: Wanted): void {
    this.#options.observer.queued();
    this.#timer.request(wanted);
  }

  async #run(wanted: Wanted): Promise<NextRun> {
    await this.#ahead;
    return await this.#complete(new SyncProgress(this.#kindOf(wanted)));
  }

  /** A sync, whatever comes of it, with its report; answers what is to be done next. */
  async #complete(progress: SyncProgress): Promise<NextRun> {
    const { clock, observer, log } = this.#options;
    try {
      await this.#sync(progress);
      // A change that was synced in the middle of a full check says nothing of the rest.
      if (progress.kind !== 'change') this.#failedSyncs = 0;
      this.#retries.settle();
    } catch (thrown) {
      progress.error = thrown instanceof Error ? thrown : new Error(String(thrown));
      this.#failedSyncs += 1;
      this.#nodeAddressesStale = true;
      // What was meant to be written may be written in part: only reading everything again tells.
      this.#fullCheckDueAt = 0;
      this.#retries.reschedule(clock.now());
    }
    const next = this.#next();
    const report = progress.report(this.#draining.servers);
    logReport(log, report, next.inMs);
    observer.finished(report);
    return next;
  }

  #kindOf(wanted: Wanted): SyncKind {
    if (!this.#started) return 'first';
    return wanted === 'full' || this.#options.clock.now() >= this.#fullCheckDueAt ? 'full' : 'change';
  }

  /** When to wake up by itself: the next full check, retry or look at what drains, whichever is first. */
  #next(): NextRun {
    const { clock, syncPeriodMs } = this.#options;
    const now = clock.now();
    if (this.#failedSyncs > 0) {
      return { wanted: 'full', inMs: Math.min(1_000 * 2 ** Math.min(this.#failedSyncs - 1, 10), syncPeriodMs) };
    }
    const soonest = Math.min(this.#retries.nextDue() ?? Infinity, this.#draining.dueAt);
    if (soonest < this.#fullCheckDueAt) return { wanted: 'change', inMs: Math.max(0, soonest - now) };
    return { wanted: 'full', inMs: Math.max(0, this.#fullCheckDueAt - now) };
  }

  async #sync(progress: SyncProgress): Promise<void> {
    const breather = new Breather();
    if (progress.kind === 'first') await this.#syncFirst(progress, breather);
    else await this.#syncChange(progress, breather);
    // What was changed has been applied as such: what is left over is drift.
    if (progress.kind === 'full') await this.#mendAll(progress, breather);
    this.#conflicts.update(this.plan.conflicts());
    // What is reported of the sync is counted over everything, too.
    await breather.breathe();
  }

  async #syncFirst(progress: SyncProgress, breather: Breather): Promise<void> {
    const { kernel, plan } = this.#options;
    await this.#readNodeAddresses();
    // Sets must exist before the rules that name them; both before any virtual server.
    await this.#apply(await missingSets(kernel, plan.families), progress, breather);
    await this.#ensureRules(progress);
    this.#desired.refreshFirst(KUBERNETES_SERVICE);
    await this.#syncChanges(progress, breather);
    await this.#addRoutes(progress, breather);
    this.plan.ignoreChanges();
    this.#touchUnfinished(this.#options.clock.now());
    const { udpChanged, triggerTimes } = await this.#refresh(progress, breather);
    this.plan.forgetChanges();
    const ops: Op[] = [];
    for await (const piece of this.#check(progress, breather)) {
      for (const op of piece.ops) ops.push(op);
    }
    await this.#apply(ops, progress, breather);
    progress.inForce(triggerTimes, this.#options.clock.now());
    this.#started = true;
    if (udpChanged) await this.#cleanUdpFlows(progress, breather);
  }

  async #syncChange(progress: SyncProgress, breather: Breather): Promise<void> {
    if (progress.kind === 'full' || this.#nodeAddressesStale) await this.#readNodeAddresses();
    this.#touchUnfinished(this.#options.clock.now());
    const { udpChanged, triggerTimes } = await this.#refresh(progress, breather);
    await this.#syncChanges(progress, breather);
    progress.inForce(triggerTimes, this.#options.clock.now());
    if (udpChanged) await this.#cleanUdpFlows(progress, breather);
  }

  async #refresh(progress: SyncProgress, breather: Breather): Promise<Refresh> {
    const refresh = await this.#desired.refresh(breather);
    progress.healthChecksChanged = refresh.healthChecksChanged;
    return refresh;
  }

  /** What failed or drains is looked at again, whatever the plan says of it. */
  #touchUnfinished(now: number): void {
    const plan = this.plan;
    for (const op of this.#retries.takeDue(now)) {
      if ('virtualServer' in op) plan.touchVirtualServer(op.virtualServer);
      else if ('id' in op) plan.touchVirtualServer(op.id);
      else if ('address' in op) plan.touchAddress(op.address);
      // The full check mends sets: it is due with the next run.
      else this.#fullCheckDueAt = Math.min(this.#fullCheckDueAt, now);
    }
    for (const id of this.#draining.takeDue(now)) plan.touchVirtualServer(id);
  }

  async #readNodeAddresses(): Promise<void> {
    // Before the read: what changes during it is read once more.
    this.#nodeAddressesStale = false;
    const addresses = await this.#options.kernel.getNodeAddresses();
    const usable = addresses.filter(({ address, tentative }) => !tentative && !isLinkLocal6(address));
    this.#desired.setInterfaceAddresses(usable.map(({ address }) => address));
  }

  async #ensureRules(progress: SyncProgress): Promise<void> {
    const { kernel, plan } = this.#options;
    for (const family of plan.families) {
      const { changed } = await kernel.ensureRules(planRules(plan, family));
      progress.rulesRepaired ||= changed && progress.kind === 'full';
    }
  }

  async #syncChanges(progress: SyncProgress, breather: Breather): Promise<void> {
    const { kernel, clock } = this.#options;
    const changes = this.plan.takeChanges();
    const { additions, others } = withoutReading(changes.virtualServers, this.#draining);
    const ids = others.map(({ id }) => id);
    const have = await readVirtualServers(kernel, ids);
    const now = clock.now();
    const rest = { ...changes, virtualServers: others };
    const sync = await changeOps(this.plan, rest, have, this.#sizes, this.#ledger, now, breather);
    this.#draining.update(ids, sync.draining, now);
    const refused = await this.#apply([...additions, ...sync.ops], progress, breather, additions);
    if (refused.length === 0) return;
    // Somebody else has changed what these count on: now it is read.
    for (const { op } of refused) if ('id' in op) this.plan.touchVirtualServer(op.id);
    await this.#syncChanges(progress, breather);
  }

  /** With the first service already: where a route stands for its address, it cannot be reached without. */
  async #addRoutes(progress: SyncProgress, breather: Breather): Promise<void> {
    const wanted = planLocalRoutes(this.#options.plan);
    if (wanted.length === 0) return;
    const ops = diffRoutes(wanted, await this.#options.kernel.getLocalRoutes());
    // Those that are no longer wanted go when the addresses that they stand for are bound.
    const missing = ops.filter(({ kind }) => kind === 'add-route');
    await this.#apply(missing, progress, breather);
  }

  /** The pieces of a full check, with what they say of the whole taken note of. */
  async *#check(progress: SyncProgress, breather: Breather): AsyncGenerator<CheckPiece, void> {
    const { kernel, clock, plan: config, excludeCidrs: excluded, log, syncPeriodMs } = this.#options;
    const first = progress.kind === 'first';
    const beside = async <T>(look: Promise<T>): Promise<T> =>
      first ? look : this.#timer.beside(look, () => this.#syncInBetween());
    // Whoever wants another meanwhile gets it when this one is done.
    this.#fullCheckDueAt = Infinity;
    const ledger = this.#ledger;
    const options = { kernel, plan: this.plan, config, excluded, ledger, clock, breather, beside, first };
    for await (const piece of fullCheck(options)) {
      const { sets, virtualServers } = piece;
      if (sets !== undefined) {
        logWrongSets(log, sets.wrong);
        this.#sizes = sets.sizes;
      }
      if (virtualServers !== undefined) {
        this.#draining.update(virtualServers.ids, virtualServers.draining, clock.now());
      }
      yield piece;
    }
    this.#fullCheckDueAt = Math.min(this.#fullCheckDueAt, clock.now() + syncPeriodMs);
  }

  async #mendAll(progress: SyncProgress, breather: Breather): Promise<void> {
    let rules: Promise<void> | undefined;
    try {
      for await (const { ops, virtualServers } of this.#check(progress, breather)) {
        for (const op of ops) if (this.#isDrift(op)) progress.drift.push(op);
        await this.#apply([...denyOps(this.plan, ops, this.#sizes), ...ops], progress, breather);
        // Their sets stand by now. Programs take their time, in which the rest is checked.
        if (virtualServers !== undefined && rules === undefined) {
          rules = this.#ensureRules(progress);
          // Heard of at the end.
          rules.catch(ignore);
        }
        await this.#timer.interlude(() => this.#syncInBetween());
      }
    } finally {
      await rules;
    }
  }

  /** A change does not wait for the end of a full check: it has a sync of its own, and a report. */
  async #syncInBetween(): Promise<void> {
    const progress = new SyncProgress('change');
    await this.#complete(progress);
    if (progress.error !== undefined) throw progress.error;
  }

  // Not: what is retried because it failed, and real servers that have finished draining.
  #isDrift(op: Op): boolean {
    const drained = op.kind === 'delete-real-server' && op.id.protocol === 'TCP';
    return !drained && this.#retries.attempts(op) === 0;
  }

  /** Answers the failures of `attempts`, which count as none: who tries knows another way. */
  async #apply(
    ops: readonly Op[],
    progress: SyncProgress,
    breather: Breather,
    attempts: readonly Op[] = [],
  ): Promise<readonly OpFailure[]> {
    if (ops.length === 0) return [];
    progress.count(ops);
    await breather.breathe();
    const { kernel, clock, log } = this.#options;
    const outcome = await applyGuarded(kernel, await breather.finish(transactionInSteps(ops)));
    if (outcome.failures.length === 0) return [];
    const tried = new Set(attempts);
    const refused: OpFailure[] = [];
    for (const failure of outcome.failures) {
      if (tried.has(failure.op)) {
        refused.push(failure);
        continue;
      }
      progress.failures.push(failure);
      this.#retries.failed(failure.op, clock.now());
      const attempt = this.#retries.attempts(failure.op);
      if (attempt === 1) log.error(`the kernel refused ${formatFailure(failure)}; it is retried`);
      else log.debug(2, `refused again: ${formatFailure(failure)}`, { attempts: attempt });
      await breather.breathe();
    }
    return refused;
  }

  async #cleanUdpFlows(progress: SyncProgress, breather: Breather): Promise<void> {
    const { kernel, plan, log } = this.#options;
    try {
      for (const family of plan.families) {
        const startedAt = performance.now();
        const flows = await kernel.getUdpFlows(family);
        const stale = await breather.finish(staleFlows(flows, (key) => this.plan.answeringAt(key)));
        const deletedFlows = stale.length === 0 ? 0 : await kernel.deleteFlows(stale);
        progress.flowCleanUps.push({ family, durationMs: performance.now() - startedAt, deletedFlows });
      }
    } catch (error) {
      log.warn(`UDP flows of removed endpoints could not be cleaned up: ${String(error)}`);
    }
  }
}

const ignore = (): void => undefined;
