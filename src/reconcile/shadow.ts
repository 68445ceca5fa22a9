import { doublingDelay } from '../base/timer.ts';
import { Yielder } from '../base/yielder.ts';
import { addingOrder } from '../diff/adding-order.ts';
import { differingOperations } from '../explain/difference/difference-reply.ts';
import { knownDifferences } from '../explain/difference/explained-by-kube-proxy.ts';
import type { PlannedOperation } from '../explain/replies.ts';
import type { KernelReader } from '../kernel/kernel.ts';
import type { NodePlan } from '../plan/node/node-plan.ts';
import type { Cidr } from '../base/cidr.ts';
import { Answers } from './answers/answers.ts';
import type { Clock } from './timing/clock.ts';
import { ConflictReport } from './desired/conflict-report.ts';
import { DesiredState, type DesiredStateOptions } from './desired/desired-state.ts';
import { InterfaceAddresses } from './desired/interface-addresses.ts';
import { readEvidence } from './answers/kube-proxy-evidence.ts';
import type { NodeSettings } from './node/node-settings.ts';
import type { Questioned } from './questioned.ts';
import { WarningLog } from './desired/warning-log.ts';

export interface ShadowOptions extends Omit<DesiredStateOptions, 'onWarning'> {
  /** Only reads. */
  readonly kernel: KernelReader;
  readonly excludeCidrs: readonly Cidr[];
  readonly syncPeriodMs: number;
  readonly nodeSettings: NodeSettings;
  readonly clock: Clock;
  readonly observer: ShadowObserver;
}

export interface ShadowObserver {
  queued(): void;
  /** Called after a comparison, with what two in a row have found. `more` differences were not looked at. */
  compared(confirmed: readonly PlannedOperation[], more: number): void;
  /** Called when the kernel could not be read. */
  failed(error: Error, retryMs: number): void;
}

/** Shortest pause between two comparisons: time for the other proxy to write a change that this process has already seen. */
const SETTLE_MS = 5_000;
/** A comparison reads everything. The pause after it is at least this many times as long. */
const REST = 10;
const MOST_COMPARED = 100_000;

/**
 * Compares the kernel with the plan, at the start, after changes and once in each sync period. It writes nothing,
 * because its kernel only reads.
 */
export class Shadow implements Questioned {
  readonly answers: Answers;
  readonly #options: ShadowOptions;
  readonly #desired: DesiredState;
  readonly #addresses: InterfaceAddresses;
  readonly #conflicts: ConflictReport;
  readonly #stop = new AbortController();
  /** The commands of the differences that the last comparison found. */
  #before: ReadonlySet<string> | undefined;
  #running: Promise<void> | undefined;
  #planned: Promise<void> = Promise.resolve();
  #cancelTimer: () => void = () => undefined;
  #dueAt = Infinity;
  #restUntil = 0;
  #failures = 0;

  constructor(options: ShadowOptions) {
    const { kernel, clock, cluster, plan: config, excludeCidrs: excluded, nodeSettings: settings, log } = options;
    const desired = new DesiredState({ ...options, warningLog: new WarningLog(log, clock) });
    // Every comparison covers everything.
    desired.plan.ignoreChanges();
    this.#options = options;
    this.#desired = desired;
    this.#addresses = new InterfaceAddresses(kernel, desired);
    this.#conflicts = new ConflictReport(log);
    this.answers = new Answers({
      kernel,
      config,
      desired,
      excluded,
      clock,
      cluster,
      settings,
      order: addingOrder(config),
      written: new Set(),
      unmarkedAddresses: () => this.#addresses.unmarked,
      refresh: () => this.#replan(),
      explainKnown: async (ops) => knownDifferences(ops, await readEvidence(kernel, cluster, ops)),
    });
  }

  get plan(): NodePlan {
    return this.#desired.plan;
  }

  /** Whether a comparison has succeeded. */
  get started(): boolean {
    return this.#before !== undefined;
  }

  /** Always false: nothing is written. */
  get syncing(): boolean {
    return false;
  }

  /** Nothing drains and nothing fails here: the other proxy does both. */
  get standing(): Questioned['standing'] {
    return { draining: [].values(), failing: [], fullCheckDueAt: this.#dueAt };
  }

  /** Must be called after a change of the cluster or node. The first comparison waits for all lists. */
  clusterChanged(): void {
    if (this.#options.cluster.synced()) this.#request();
  }

  /** Must be called after an interface address was added or removed. */
  nodeAddressesChanged(): void {
    this.#addresses.changed();
    if (this.started) this.#request();
  }

  /** Must be called when another program removed kube-ipvs0 or all virtual servers. */
  kernelStateLost(): void {
    if (this.started) this.#request();
  }

  /** Waits for the running comparison, and prevents others. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#cancelTimer();
    await this.#running;
  }

  #request(): void {
    const { clock, observer } = this.#options;
    observer.queued();
    this.#schedule(clock.now() + (this.started ? SETTLE_MS : 0));
  }

  /** Compares at this time, unless a comparison is due sooner. */
  #schedule(time: number): void {
    const { clock } = this.#options;
    const at = Math.max(time, this.#restUntil);
    if (this.#stop.signal.aborted || at >= this.#dueAt) return;
    this.#dueAt = at;
    if (this.#running !== undefined) return;
    this.#cancelTimer();
    this.#cancelTimer = clock.setTimer(() => {
      this.#running = this.#run();
    }, at - clock.now());
  }

  async #run(): Promise<void> {
    const { clock, syncPeriodMs, observer } = this.#options;
    this.#dueAt = Infinity;
    const startedAt = clock.now();
    let next: number;
    try {
      next = await this.#compare();
      this.#failures = 0;
    } catch (thrown) {
      this.#failures += 1;
      this.#addresses.changed();
      next = doublingDelay(this.#failures, syncPeriodMs, SETTLE_MS);
      const error = thrown instanceof Error ? thrown : new Error(String(thrown));
      if (!this.#stop.signal.aborted) observer.failed(error, next);
    }
    const now = clock.now();
    this.#restUntil = now + Math.max(SETTLE_MS, REST * (now - startedAt));
    const dueAt = Math.min(this.#dueAt, now + next);
    this.#dueAt = Infinity;
    this.#running = undefined;
    this.#schedule(dueAt);
  }

  /** Returns when to compare again, in ms: soon if a difference is not confirmed yet. */
  async #compare(): Promise<number> {
    const { syncPeriodMs, observer } = this.#options;
    const found = await this.answers.difference(this.#stop.signal, MOST_COMPARED);
    this.#conflicts.update(this.plan);
    const differing = differingOperations(found);
    const before = this.#before;
    this.#before = new Set(differing.map(({ command }) => command));
    const confirmed = differing.filter(({ command }) => before?.has(command) === true);
    const unconfirmed = before === undefined || confirmed.length < differing.length;
    if (before !== undefined) observer.compared(confirmed, found.more);
    return unconfirmed ? SETTLE_MS : syncPeriodMs;
  }

  /**
   * Plans what has changed since the last time. Comparisons are rare, so that questions do it, too. One after the other:
   * planning yields.
   */
  async #replan(): Promise<void> {
    if (!this.#options.cluster.synced()) return;
    const before = this.#planned;
    const replanning = (async () => {
      await before.catch(() => undefined);
      await this.#addresses.findMarks();
      if (this.#addresses.stale) await this.#addresses.read();
      await this.#desired.refresh(new Yielder());
    })();
    this.#planned = replanning;
    await replanning;
  }
}
