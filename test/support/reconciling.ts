import { DEFAULT_ANNOTATIONS, type ServiceAnnotation } from '../../src/base/service/service-annotations.ts';
import { FakeKernel } from '../fake-kernel/fake-kernel.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { Cluster } from '../../src/model/cluster.ts';
import type { Log, LogFields } from '../../src/observe/log/log.ts';
import type { PlanConfig } from '../../src/plan/plan-config.ts';
import type { Clock } from '../../src/reconcile/timing/clock.ts';
import { Reconciler, type ReconcilerOptions } from '../../src/reconcile/reconciler.ts';
import type { SyncReport } from '../../src/state/sync-report.ts';

/** A clock that the test advances, and whose wall time it sets. */
export class FakeClock implements Clock {
  #now = 1_000_000;
  #wallLead = Date.UTC(2026, 10, 21, 12) + 0.25;
  readonly #timers = new Set<{ readonly at: number; readonly callback: () => void }>();

  now(): number {
    return this.#now;
  }

  wallNow(): number {
    return this.#now + this.#wallLead;
  }

  /** Changes the wall clock without affecting timers. */
  stepWall(ms: number): void {
    this.#wallLead += ms;
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

  /** Advances time and runs the timers that become due. */
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
  readonly entries: { readonly message: string; readonly fields: LogFields }[] = [];
  error = (message: string, fields?: LogFields): void => this.#add('error', message, fields);
  warn = (message: string, fields?: LogFields): void => this.#add('warn', message, fields);
  info = (message: string, fields?: LogFields): void => this.#add('info', message, fields);
  debug = (_level: number, message: string, fields?: LogFields): void => this.#add('debug', message, fields);
  enabled = (): boolean => false;
  child = (): Log => this;

  #add(level: string, message: string, fields: LogFields = {}): void {
    this.lines.push(`${level}: ${message}`);
    this.entries.push({ message, fields });
  }
}

export const PLAN_CONFIG: PlanConfig = {
  scheduler: 'lc',
  families: [4, 6],
  nodeName: 'node-a',
  nodePortAddresses: { primary: false, cidrs: [] },
  masqueradeAll: false,
  masqueradeMark: 0x4000,
  localDetectors: {},
  randomFully: true,
};

/** A reconciler with a kernel (fake by default), a clock and a cluster that the test controls. */
export class Reconciling {
  readonly clock = new FakeClock();
  readonly log = new TestLog();
  readonly cluster: Cluster;
  readonly reports: SyncReport[] = [];
  /** Number of rule repairs. */
  rulesRepaired = 0;
  readonly reconciler: Reconciler;
  /** The last call of ensureRules(), and the number of calls. */
  #ruleCheck: Promise<unknown> = Promise.resolve();
  #ruleChecks = 0;
  #waiting: (() => void)[] = [];

  constructor(
    kernel: Kernel = new FakeKernel(),
    options: Partial<ReconcilerOptions> = {},
    annotations: readonly ServiceAnnotation[] = DEFAULT_ANNOTATIONS,
  ) {
    const plan = options.plan ?? PLAN_CONFIG;
    this.cluster = new Cluster(plan.nodeName, annotations);
    this.reconciler = new Reconciler({
      kernel: this.#watched(kernel),
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
      onRulesRepaired: () => {
        this.rulesRepaired += 1;
      },
      ...options,
    });
  }

  /** Applies events and waits for the sync that they cause. */
  async take(...events: readonly SourceEvent[]): Promise<SyncReport> {
    for (const event of events) this.cluster.apply(event);
    this.reconciler.clusterChanged();
    return this.pass(0);
  }

  /**
   * As `take`, then waits for the rule checks, and runs the syncs for virtual servers with source ranges, which wait for
   * them. Returns the report of the first sync.
   */
  async settle(...events: readonly SourceEvent[]): Promise<SyncReport> {
    const report = await this.take(...events);
    for (let checks = -1; checks < this.#ruleChecks || this.clock.nextIn === 0;) {
      checks = this.#ruleChecks;
      await Promise.allSettled([this.#ruleCheck]);
      // The check of the next family, or the sync that waited for the checks, is requested after the result.
      await new Promise((resolve) => setImmediate(resolve));
      if (this.clock.nextIn === 0) await this.pass(0);
    }
    return report;
  }

  /** Advances time and waits for the next sync. */
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

  /** The kernel, with its calls of ensureRules() noted. */
  #watched(kernel: Kernel): Kernel {
    return new Proxy(kernel, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        return (...given: unknown[]): unknown => {
          const result: unknown = Reflect.apply(value, target, given);
          if (name === 'ensureRules') {
            this.#ruleChecks += 1;
            this.#ruleCheck = Promise.resolve(result);
          }
          return result;
        };
      },
    });
  }
}
