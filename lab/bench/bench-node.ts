import type { Kernel } from '../../src/kernel/kernel.ts';
import { createIptablesKernel } from '../../src/kernel/iptables-mode/iptables-kernel.ts';
import { createIpvsKernel } from '../../src/kernel/ipvs/ipvs-kernel.ts';
import { createNftablesKernel } from '../../src/kernel/nftables/nftables-kernel.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { Cluster } from '../../src/model/cluster.ts';
import { MODE_PLANS } from '../../src/plan/mode-plans.ts';
import type { PlanConfig } from '../../src/plan/plan-config.ts';
import { SYSTEM_CLOCK } from '../../src/reconcile/timing/clock.ts';
import { Reconciler } from '../../src/reconcile/reconciler.ts';
import type { Op } from '../../src/state/op.ts';
import type { Transaction } from '../../src/state/transaction.ts';
import { runCommand } from '../../test/bed/command.ts';
import { QuietLog } from '../../test/contract/quiet-log.ts';
import { NODE_ADDRESS, NODE_NAME } from './large-cluster.ts';
import type { SyncReport } from '../../src/state/sync-report.ts';

export const PLAN: PlanConfig = {
  scheduler: 'lc',
  families: [4, 6],
  nodeName: NODE_NAME,
  nodePortAddresses: { primary: false, cidrs: [] },
  masqueradeAll: false,
  masqueradeMark: 0x4000,
  localDetectors: {},
  randomFully: true,
};

const CREATE = { ipvs: createIpvsKernel, nftables: createNftablesKernel, iptables: createIptablesKernel };

/** Empties the tables of iptables mode. */
const FLUSH_IPTABLES =
  'for p in iptables ip6tables; do for t in nat filter; do $p -w -t $t -F; $p -w -t $t -X; done; done';

export const SYNC_PERIOD_MS = 3_600_000;

/** A process in a slow kernel, filling a large one or listing it. */
const COMMAND_MS = 900_000;

/** The modes in which the kernel does all the work. */
export type BenchMode = keyof typeof CREATE;

export interface NodeOptions {
  /** Default: ipvs. */
  readonly mode?: BenchMode;
  /** `false`: without finding out which iptables is at work here, for a node that a baseline fills. */
  readonly rules?: boolean;
  /** As the daemon does when it starts, before there is anything to sync. `false`: the node is left empty. */
  readonly prepared?: boolean;
}

/** A network namespace with one address, and the real kernel in it. */
export class BenchNode implements AsyncDisposable {
  static #last = 0;
  readonly netns: string;
  readonly path: string;
  readonly log = new QuietLog();
  readonly kernel: Kernel;
  readonly mode: BenchMode;

  private constructor(netns: string, mode: BenchMode) {
    this.netns = netns;
    this.mode = mode;
    this.path = `/run/netns/${netns}`;
    this.kernel = CREATE[mode]({ log: this.log, netns: this.path });
  }

  static async make({ mode = 'ipvs', rules = true, prepared = true }: NodeOptions = {}): Promise<BenchNode> {
    const node = new BenchNode(`bench-${process.pid}-${++BenchNode.#last}`, mode);
    await runCommand(['ip', 'netns', 'add', node.netns]);
    const lines = [
      'link set lo up',
      // Not every machine's own kernel has dummy devices.
      'link add eth0 type veth peer name peer',
      'link set peer up',
      `addr add ${NODE_ADDRESS}/24 dev eth0`,
      'link set eth0 up',
    ];
    await runCommand(['ip', '-n', node.netns, '-batch', '-'], { input: `${lines.join('\n')}\n` });
    if (prepared) await node.kernel.prepare();
    if (rules) for (const family of PLAN.families) await node.kernel.probeRules(family);
    return node;
  }

  /** Runs a program in the namespace; answers its output. */
  async run(argv: readonly string[], input = ''): Promise<string> {
    const inside = ['nsenter', `--net=${this.path}`, '--', ...argv];
    return (await runCommand(inside, { input, timeoutMs: COMMAND_MS })).stdout;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The kernel empties a deleted namespace later, in the time of whoever is measured next: so that there is little left to do.
    await this.kernel.removeDevice();
    if (this.kernel.mode === 'ipvs') await this.run(['sh', '-c', 'ipvsadm -C; ipset flush']);
    if (this.kernel.mode === 'iptables') await this.run(['sh', '-c', FLUSH_IPTABLES]);
    await this.kernel.close();
    await runCommand(['ip', 'netns', 'del', this.netns]);
  }
}

/** The reconciler on a kernel, with real time, and what it did. */
export class Driver {
  readonly cluster = new Cluster(NODE_NAME);
  readonly reconciler: Reconciler;
  readonly log = new QuietLog();
  /** What was handed to the kernel; kept as it is, for copying it would be measured. */
  #applied: (readonly Op[])[] = [];
  /** Milliseconds in the kernel's methods so far: what is left of a sync is planning and comparing. */
  kernelMs = 0;
  /** Of those: applying transactions. */
  applyMs = 0;
  #bootstrapping = 0;
  #waiting: ((report: SyncReport) => void)[] = [];

  constructor(kernel: Kernel, plan: Partial<PlanConfig> = {}) {
    const recording = new Proxy(kernel, {
      get: (target, property) => {
        const value: unknown = Reflect.get(target, property, target);
        if (typeof value !== 'function') return value;
        return async (...args: readonly unknown[]): Promise<unknown> => {
          const [first] = args;
          if (property === 'apply') this.#applied.push([...(first as Transaction)]);
          const start = performance.now();
          const result: unknown = await Reflect.apply(value, target, args);
          const took = performance.now() - start;
          this.kernelMs += took;
          if (property === 'apply') this.applyMs += took;
          return result;
        };
      },
    });
    this.reconciler = new Reconciler({
      kernel: recording,
      cluster: this.cluster,
      plan: { ...PLAN, ...MODE_PLANS[kernel.mode], ...plan },
      nodeIpOverride: undefined,
      excludeCidrs: [],
      // Nothing happens but what is asked for.
      syncPeriodMs: SYNC_PERIOD_MS,
      minSyncPeriodMs: 0,
      drainTimeoutMs: 0,
      clock: { ...SYSTEM_CLOCK, now: () => SYSTEM_CLOCK.now() + this.#bootstrapping },
      log: this.log,
      observer: {
        queued: () => undefined,
        finished: (report) => {
          for (const resolve of this.#waiting.splice(0)) resolve(report);
        },
      },
    });
  }

  /** Every operation that was handed to the kernel since the last call. */
  takeOps(): Op[] {
    const ops = this.#applied.flat();
    this.#applied = [];
    return ops;
  }

  /** From the events to the end of the sync that they ask for. */
  async take(events: readonly SourceEvent[]): Promise<SyncReport> {
    for (const event of events) this.cluster.apply(event);
    return this.#sync(() => this.reconciler.clusterChanged());
  }

  /** The periodic check, its time come. */
  async fullCheck(): Promise<SyncReport> {
    this.#bootstrapping += SYNC_PERIOD_MS;
    const report = await this.#sync(() => this.reconciler.clusterChanged());
    if (report.kind !== 'full') throw new Error(`a full check was wanted, not a ${report.kind} sync`);
    return report;
  }

  async #sync(ask: () => void): Promise<SyncReport> {
    const { promise, resolve } = Promise.withResolvers<SyncReport>();
    this.#waiting.push(resolve);
    ask();
    const report = await promise;
    if (!report.ok || report.failures.length > 0) {
      throw new Error(`sync failed: ${report.error?.message ?? `${report.failures.length} operations`}`);
    }
    return report;
  }
}
