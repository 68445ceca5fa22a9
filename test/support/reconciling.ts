import { FakeKernel } from '../../src/kernel/fake-kernel.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import type { SourceEvent } from '../../src/kube/source.ts';
import { Cluster } from '../../src/model/cluster.ts';
import type { Log } from '../../src/observe/log.ts';
import type { PlanConfig } from '../../src/plan/plan-config.ts';
import type { Clock } from '../../src/reconcile/clock.ts';
import { Reconciler, type ReconcilerOptions } from '../../src/reconcile/reconciler.ts';
import type { SyncReport } from '../../src/reconcile/sync-report.ts';

/** A clock that the test turns. */
export class FakeClock implements Clock {
  #now = 1_000_000;
  readonly #timers = new Set<{ readonly at: number; readonly callback: () => void }>();

  now(): number {
    return this.#now;
  }

  setTimer(callback: () => void, ms: number): () => void {
    const timer = { at: this.#now + ms, callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Milliseconds until the next timer; undefined when none is set. */
  get nextIn(): number | undefined {
    const times = Array.from(this.#timers, ({ at }) => at);
    return times.length === 0 ? undefined : Math.min(...times) - this.#now;
  }

  /** Lets time pass, firing what falls due on the way. */
  advance(ms: number): void {
    const end = this.#now + ms;
    for (;;) {
      const due = [...this.#timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.#timers.delete(due);
      this.#now = Math.max(this.#now, due.at);
      due.callback();
    }
    this.#now = end;
  }
}

/** A log that remembers its lines. */
export class TestLog implements Log {
  readonly lines: string[] = [];
  error = (message: string): void => this.#add('error', message);
  warn = (message: string): void => this.#add('warn', message);
  info = (message: string): void => this.#add('info', message);
  debug = (_level: number, message: string): void => this.#add('debug', message);
  child = (): Log => this;

  #add(level: string, message: string): void {
    this.lines.push(`${level}: ${message}`);
  }
}

export const PLAN_CONFIG: PlanConfig = {
  scheduler: 'lc',
  families: [4, 6],
  nodeName: 'node-a',
  nodePortAddresses: [],
  masqueradeAll: false,
  masqueradeMark: 0x4000,
  localDetectors: {},
  randomFully: true,
};

/** A reconciler on a kernel (the fake one unless given), a clock and a cluster that the test owns. */
export class Reconciling {
  readonly clock = new FakeClock();
  readonly log = new TestLog();
  readonly cluster: Cluster;
  readonly reports: SyncReport[] = [];
  readonly reconciler: Reconciler;
  #waiting: (() => void)[] = [];

  constructor(kernel: Kernel = new FakeKernel(), options: Partial<ReconcilerOptions> = {}) {
    const plan = options.plan ?? PLAN_CONFIG;
    this.cluster = new Cluster(plan.nodeName);
    this.reconciler = new Reconciler({
      kernel,
      cluster: this.cluster,
      plan,
      nodeIpOverride: undefined,
      excludeCidrs: [],
      syncPeriodMs: 30_000,
      minSyncPeriodMs: 0,
      drainTimeoutMs: 0,
      clock: this.clock,
      log: this.log,
      observer: {
        queued: () => undefined,
        finished: (report) => {
          this.reports.push(report);
          for (const resolve of this.#waiting.splice(0)) resolve();
        },
      },
      ...options,
    });
  }

  /** Hands events over and lets the sync that they ask for run to its end. */
  async take(...events: readonly SourceEvent[]): Promise<SyncReport> {
    for (const event of events) this.cluster.apply(event);
    this.reconciler.clusterChanged();
    return this.pass(0);
  }

  /** Lets time pass and the next sync end. */
  async pass(ms: number): Promise<SyncReport> {
    const done = new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.clock.advance(ms);
    await done;
    // The loop sets its next timer after the report.
    await new Promise((resolve) => setImmediate(resolve));
    const report = this.reports.at(-1);
    if (report === undefined) throw new Error('no report');
    return report;
  }
}
