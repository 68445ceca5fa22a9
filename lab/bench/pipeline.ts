import { execFile } from 'node:child_process';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';
import { FakeKernel } from '../../test/fake-kernel/fake-kernel.ts';
import { chunks } from '../../src/kernel/linux/slices.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { Cluster } from '../../src/model/cluster.ts';
import { Yielder } from '../../src/base/yielder.ts';
import { SYSTEM_CLOCK } from '../../src/reconcile/timing/clock.ts';
import { Reconciler } from '../../src/reconcile/reconciler.ts';
import type { OpFailure, Outcome } from '../../src/state/outcome.ts';
import { Transaction } from '../../src/state/transaction.ts';
import { QuietLog } from '../../test/contract/quiet-log.ts';
import { PLAN_CONFIG } from '../../test/support/reconciling.ts';
import { weigh } from './heap.ts';
import { type ClusterShape, NODE_NAME, listedEvents } from './large-cluster.ts';
import { LoopProbe } from './loop-probe.ts';
import { median } from './measure.ts';
import { type SelfTimes, profileTable, profiled } from './profile.ts';
import type { SyncReport } from '../../src/state/sync-report.ts';

// What user space costs by itself: listed objects -> Cluster -> plan -> NodePlan -> diff -> Transaction, applied to a
// kernel in memory.
// Alone, `node lab/bench/pipeline.ts` prints a summary; with `profile`, which functions the time goes to.

/** One first sync. Times are microseconds for each service. */
export interface PipelineRun {
  /** On the clock. */
  readonly micros: number;
  /** Of the thread that runs the code: what other programs do to the clock is not in it. */
  readonly threadMicros: number;
  /** Of all threads: those that collect garbage and compile, too. */
  readonly processMicros: number;
  /** The part of threadMicros inside the kernel in memory, which replaces a real one. */
  readonly fakeMicros: number;
  /** The longest time in ms that this thread worked without letting the event loop turn. */
  readonly heldMs: number;
}

/** Bytes kept for each Service, without the listed objects, which are not kept. */
export interface KeptBytes {
  readonly model: number;
  readonly plan: number;
}

export const ONE_ENDPOINT: ClusterShape = {
  services: 10_000,
  endpoints: 1,
  dualStackEvery: 0,
  nodePortEvery: 0,
  udpEvery: 0,
  loadBalancerEvery: 0,
};

/** So many operations take the kernel in memory a few milliseconds. */
const OPS_A_TURN = 4_096;

function threadMicros(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}

function processMicros(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/**
 * Time inside the kernel is measured separately; applied operations are not kept, and the event loop runs as with the
 * real one.
 */
class TimedKernel extends FakeKernel {
  micros = 0;

  override async apply(tx: Transaction): Promise<Outcome> {
    const failures: OpFailure[] = [];
    for (const piece of chunks([...tx], OPS_A_TURN)) {
      const start = threadMicros();
      failures.push(...(await super.apply(new Transaction(piece))).failures);
      this.micros += threadMicros() - start;
      this.applied.length = 0;
      await setImmediate();
    }
    return { failures };
  }
}

/** Everything between the objects and the kernel, in real time. */
class Pipeline {
  readonly kernel = new TimedKernel();
  readonly cluster = new Cluster(NODE_NAME);
  readonly reconciler: Reconciler;
  #finished: (report: SyncReport) => void = () => undefined;

  private constructor() {
    this.reconciler = new Reconciler({
      kernel: this.kernel,
      cluster: this.cluster,
      plan: { ...PLAN_CONFIG, nodeName: NODE_NAME },
      nodeIpOverride: undefined,
      excludeCidrs: [],
      syncPeriodMs: 3_600_000,
      minSyncPeriodMs: 0,
      drainTimeoutMs: 0,
      clock: SYSTEM_CLOCK,
      log: new QuietLog(),
      observer: { queued: () => undefined, finished: (report) => this.#finished(report) },
    });
  }

  static async make(): Promise<Pipeline> {
    const made = new Pipeline();
    await made.kernel.prepare();
    return made;
  }

  /** Takes the events in as the daemon does, and waits for the sync that they ask for. */
  async take(events: readonly SourceEvent[]): Promise<SyncReport> {
    const yielder = new Yielder();
    for (const event of events) await yielder.finish(this.cluster.applyInSteps(event));
    const { promise, resolve } = Promise.withResolvers<SyncReport>();
    this.#finished = resolve;
    this.reconciler.clusterChanged();
    const report = await promise;
    if (!report.ok || report.failures.length > 0) throw new Error(`sync failed: ${report.error?.message}`);
    return report;
  }
}

/** With `times`, the profile of the run is added to them. */
export async function firstSync(shape: ClusterShape, times?: SelfTimes): Promise<PipelineRun> {
  const events = listedEvents(shape);
  const pipeline = await Pipeline.make();
  // Garbage of the making is not the pipeline's.
  await weigh();
  const probe = new LoopProbe();
  probe.start();
  const start = { clock: performance.now(), thread: threadMicros(), process: processMicros() };
  await (times === undefined ? pipeline.take(events) : profiled(times, () => pipeline.take(events)));
  const end = { clock: performance.now(), thread: threadMicros(), process: processMicros() };
  const { cpuMs } = probe.take();
  probe.stop();
  await pipeline.reconciler.stop();
  const { size } = pipeline.kernel.tables.virtualServers;
  if (size !== shape.services) throw new Error(`${size} virtual servers for ${shape.services} services`);
  return {
    micros: ((end.clock - start.clock) * 1_000) / shape.services,
    threadMicros: (end.thread - start.thread) / shape.services,
    processMicros: (end.process - start.process) / shape.services,
    fakeMicros: pipeline.kernel.micros / shape.services,
    heldMs: cpuMs,
  };
}

/** The first sync of a process, as a daemon's start has it: most of the code is not compiled yet. */
export async function coldFirstSync(shape: ClusterShape): Promise<PipelineRun> {
  const argv = [import.meta.filename, 'cold', JSON.stringify(shape)];
  const { stdout } = await promisify(execFile)(process.execPath, argv, { timeout: 120_000 });
  return JSON.parse(stdout) as PipelineRun;
}

export async function keptBytes(shape: ClusterShape): Promise<KeptBytes> {
  // Code and caches of a first run are not counted.
  await firstSync({ ...shape, services: 200 });
  const model = await keptBy(() => Promise.resolve(filledCluster(shape)));
  const all = await keptBy(() => filledPipeline(shape));
  return { model: Math.round(model / shape.services), plan: Math.round((all - model) / shape.services) };
}

/** Bytes that stay as long as the value does. */
async function keptBy(make: () => Promise<unknown>): Promise<number> {
  const before = await weigh();
  const kept = [await make()];
  const after = await weigh();
  // Until here at least.
  kept.pop();
  return after.heap - before.heap;
}

function filledCluster(shape: ClusterShape): Cluster {
  const cluster = new Cluster(NODE_NAME);
  for (const event of listedEvents(shape)) cluster.apply(event);
  cluster.takeChanges();
  return cluster;
}

async function filledPipeline(shape: ClusterShape): Promise<Pipeline> {
  const pipeline = await Pipeline.make();
  await pipeline.take(listedEvents(shape));
  await pipeline.reconciler.stop();
  // The tables are the kernel's.
  const { virtualServers, bound, sets } = pipeline.kernel.tables;
  virtualServers.clear();
  bound.clear();
  sets.clear();
  return pipeline;
}

async function repeated(times: number, run: () => Promise<PipelineRun>): Promise<PipelineRun[]> {
  const runs: PipelineRun[] = [];
  for (let count = 0; count < times; count++) runs.push(await run());
  return runs;
}

async function summary(): Promise<void> {
  const cold = await repeated(10, () => coldFirstSync(ONE_ENDPOINT));
  await repeated(5, () => firstSync(ONE_ENDPOINT));
  const warm = await repeated(15, () => firstSync(ONE_ENDPOINT));
  for (const name of ['micros', 'threadMicros', 'processMicros', 'fakeMicros', 'heldMs'] as const) {
    for (const [which, runs] of Object.entries({ cold, warm })) {
      const values = runs.map((run) => run[name]);
      const shown = [Math.min(...values), median(values), Math.max(...values)].map((value) => value.toFixed(1));
      process.stdout.write(`${which} ${name}: ${shown.join(' / ')} (least, median, most of ${values.length})\n`);
    }
  }
  process.stdout.write(`bytes kept for a service: ${JSON.stringify(await keptBytes(ONE_ENDPOINT))}\n`);
}

async function profile(): Promise<void> {
  const cold: SelfTimes = new Map();
  await firstSync(ONE_ENDPOINT, cold);
  await repeated(5, () => firstSync(ONE_ENDPOINT));
  const warm: SelfTimes = new Map();
  await repeated(15, () => firstSync(ONE_ENDPOINT, warm));
  process.stdout.write(`cold\n\n${profileTable(cold)}\nwarm\n\n${profileTable(warm)}`);
}

const [, program, mode, ofShape] = process.argv;
if (program === import.meta.filename) {
  if (mode === 'cold' && ofShape !== undefined) {
    process.stdout.write(`${JSON.stringify(await firstSync(JSON.parse(ofShape) as ClusterShape))}\n`);
  } else await (mode === 'profile' ? profile() : summary());
}
