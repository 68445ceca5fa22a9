import { execFile } from 'node:child_process';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';
import { runInNewContext } from 'node:vm';
import { FakeKernel } from '../../src/kernel/fake-kernel.ts';
import { chunks } from '../../src/kernel/slices.ts';
import type { SourceEvent } from '../../src/kube/source.ts';
import { Cluster } from '../../src/model/cluster.ts';
import { Breather } from '../../src/reconcile/breather.ts';
import { SYSTEM_CLOCK } from '../../src/reconcile/clock.ts';
import { Reconciler } from '../../src/reconcile/reconciler.ts';
import type { SyncReport } from '../../src/reconcile/sync-report.ts';
import type { OpFailure, Outcome } from '../../src/state/outcome.ts';
import type { Transaction } from '../../src/state/transaction.ts';
import { QuietLog } from '../contract/quiet-log.ts';
import { PLAN_CONFIG } from '../support/reconciling.ts';
import { type ClusterShape, NODE_NAME, listedEvents, scaledEvent } from './large-cluster.ts';
import { median } from './measure.ts';
import { type SelfTimes, profileTable, profiled } from './profile.ts';

/**
 * What user space costs by itself: listed objects -> Cluster -> plan -> NodePlan -> diff -> Transaction, applied to a kernel in
 * memory. Alone, `node test/bench/pipeline.ts` prints a summary; with `profile`, which functions the time goes to.
 */
export interface PipelineCost {
  /** Microseconds of real time for each service, of each run after warm-up, all of it. */
  readonly warmMicros: readonly number[];
  /** The same, first run of a process: what a daemon's start pays. */
  readonly coldMicros: readonly number[];
  /** Of warmMicros: inside the kernel in memory, which a real one would replace. */
  readonly fakeMicros: readonly number[];
  /** Longest time, in ms, that the event loop did not turn in each warm run. */
  readonly blockedMs: readonly number[];
  /** As warmMicros and coldMicros, in time of CPUs: all threads, those that collect garbage and compile too. */
  readonly warmCpuMicros: readonly number[];
  readonly coldCpuMicros: readonly number[];
  /** Bytes kept for each service, after a collection of garbage. The listed objects are not among them: nobody keeps those. */
  readonly bytes: { readonly model: number; readonly plan: number };
}

interface Run {
  readonly micros: number;
  readonly cpuMicros: number;
  readonly fakeMicros: number;
  readonly blockedMs: number;
}

export const ONE_ENDPOINT: ClusterShape = {
  services: 10_000,
  endpoints: 1,
  dualStackEvery: 0,
  nodePortEvery: 0,
  udpEvery: 0,
};

/** So many operations take the kernel in memory a few milliseconds. */
const OPS_A_TURN = 4_096;

/** Time inside of the kernel is told apart; what was applied is forgotten, and the event loop turns as with the real one. */
class TimedKernel extends FakeKernel {
  ms = 0;

  override async apply({ ops }: Transaction): Promise<Outcome> {
    const failures: OpFailure[] = [];
    for (const piece of chunks(ops, OPS_A_TURN)) {
      const start = performance.now();
      failures.push(...(await super.apply({ ops: piece })).failures);
      this.ms += performance.now() - start;
      this.applied.length = 0;
      await setImmediate();
    }
    return { attempted: ops.length, failures };
  }
}

/** Everything between the objects and the kernel, in real time. */
export class Pipeline {
  readonly kernel = new TimedKernel();
  readonly cluster = new Cluster(NODE_NAME);
  readonly reconciler: Reconciler;
  #finished: (report: SyncReport) => void = () => undefined;

  constructor() {
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

  /** Takes the events in as the daemon does, and waits for the sync that they ask for. */
  async take(events: readonly SourceEvent[]): Promise<SyncReport> {
    const breather = new Breather();
    for (const event of events) await breather.finish(this.cluster.applyInSteps(event));
    const { promise, resolve } = Promise.withResolvers<SyncReport>();
    this.#finished = resolve;
    this.reconciler.clusterChanged();
    const report = await promise;
    if (!report.ok || report.failures.length > 0) throw new Error(`sync failed: ${report.error?.message}`);
    return report;
  }

  async stop(): Promise<void> {
    await this.reconciler.stop();
  }
}

async function makePipeline(): Promise<Pipeline> {
  const made = new Pipeline();
  await made.kernel.prepare();
  return made;
}

async function firstSync(shape: ClusterShape, times?: SelfTimes): Promise<Run> {
  const events = listedEvents(shape);
  const pipeline = await makePipeline();
  // Garbage of the making is not the pipeline's.
  collectGarbage();
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const start = performance.now();
  const cpuBefore = process.cpuUsage();
  await (times === undefined ? pipeline.take(events) : profiled(times, () => pipeline.take(events)));
  const ms = performance.now() - start;
  const cpu = process.cpuUsage(cpuBefore);
  delay.disable();
  const { virtualServers } = pipeline.kernel.tables;
  if (virtualServers.size !== shape.services) throw new Error(`${virtualServers.size} virtual servers were made`);
  await pipeline.stop();
  return {
    micros: (ms * 1_000) / shape.services,
    cpuMicros: (cpu.user + cpu.system) / shape.services,
    fakeMicros: (pipeline.kernel.ms * 1_000) / shape.services,
    blockedMs: delay.max / 1e6,
  };
}

/** Milliseconds from the event to the end of its sync, for single endpoints that come and go. */
export async function changeTimes(shape: ClusterShape, changes: number, warmUp = 200): Promise<readonly number[]> {
  const pipeline = await makePipeline();
  await pipeline.take(listedEvents(shape));
  const times: number[] = [];
  for (let change = -warmUp; change < changes; change++) {
    const at = (change + warmUp) % shape.services;
    const grows = Math.trunc((change + warmUp) / shape.services) % 2 === 0;
    const event = scaledEvent(at, shape, shape.endpoints + (grows ? 1 : 0));
    const start = performance.now();
    await pipeline.take([event]);
    if (change >= 0) times.push(performance.now() - start);
  }
  await pipeline.stop();
  return times;
}

/** Milliseconds for so many changes of endpoints that arrive at once. */
export async function burstTimes(shape: ClusterShape, changes: number, runs: number): Promise<readonly number[]> {
  const pipeline = await makePipeline();
  await pipeline.take(listedEvents(shape));
  const times: number[] = [];
  for (let run = -2; run < runs; run++) {
    const endpoints = shape.endpoints + (run % 2 === 0 ? 1 : 0);
    const events = Array.from({ length: changes }, (_, at) => scaledEvent(at, shape, endpoints));
    collectGarbage();
    const start = performance.now();
    await pipeline.take(events);
    if (run >= 0) times.push(performance.now() - start);
  }
  await pipeline.stop();
  return times;
}

async function keptBytes(shape: ClusterShape): Promise<PipelineCost['bytes']> {
  // Code and caches of a first run are not counted.
  await firstSync({ ...shape, services: 200 });
  const model = await keptBy(() => Promise.resolve(filledCluster(shape)));
  const all = await keptBy(() => filledPipeline(shape));
  return { model: Math.round(model / shape.services), plan: Math.round((all - model) / shape.services) };
}

/** Bytes that stay as long as the value does. */
async function keptBy(make: () => Promise<unknown>): Promise<number> {
  const before = await heapUsed();
  const kept = [await make()];
  const bytes = (await heapUsed()) - before;
  // Until here at least.
  kept.pop();
  return bytes;
}

function filledCluster(shape: ClusterShape): Cluster {
  const cluster = new Cluster(NODE_NAME);
  for (const event of listedEvents(shape)) cluster.apply(event);
  cluster.takeChanges();
  return cluster;
}

async function filledPipeline(shape: ClusterShape): Promise<Pipeline> {
  const pipeline = await makePipeline();
  await pipeline.take(listedEvents(shape));
  await pipeline.stop();
  // The tables are the kernel's.
  const { virtualServers, bound, sets } = pipeline.kernel.tables;
  virtualServers.clear();
  bound.clear();
  sets.clear();
  return pipeline;
}

export async function pipelineCost(shape: ClusterShape = ONE_ENDPOINT, runs = 15, warmUp = 5): Promise<PipelineCost> {
  const bytes = await keptBytes(shape);
  const cold: Run[] = [];
  for (let run = 0; run < Math.min(runs, 10); run++) cold.push(await coldRun(shape));
  const all: Run[] = [];
  for (let run = 0; run < warmUp + runs; run++) all.push(await firstSync(shape));
  const warm = all.slice(warmUp);
  return {
    warmMicros: warm.map(({ micros }) => micros),
    coldMicros: cold.map(({ micros }) => micros),
    warmCpuMicros: warm.map(({ cpuMicros }) => cpuMicros),
    coldCpuMicros: cold.map(({ cpuMicros }) => cpuMicros),
    fakeMicros: warm.map(({ fakeMicros }) => fakeMicros),
    blockedMs: warm.map(({ blockedMs }) => blockedMs),
    bytes,
  };
}

async function coldRun(shape: ClusterShape): Promise<Run> {
  const argv = [import.meta.filename, 'cold', JSON.stringify(shape)];
  const { stdout } = await promisify(execFile)(process.execPath, argv, { timeout: 120_000 });
  return JSON.parse(stdout) as Run;
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

async function heapUsed(): Promise<number> {
  // In a turn of its own, so that nothing is left on a stack; twice, because finalizers take a second one.
  for (let turn = 0; turn < 2; turn++) {
    await setImmediate();
    collectGarbage();
  }
  return process.memoryUsage().heapUsed;
}

function show(name: string, values: readonly number[], unit: string): void {
  const [least, middle, most] = [Math.min(...values), median(values), Math.max(...values)];
  const shown = [least, middle, most].map((value) => value.toFixed(value < 1 ? 3 : 1)).join(' / ');
  process.stdout.write(`${name}: ${shown} ${unit} (least / median / most of ${values.length})\n`);
}

async function summary(): Promise<void> {
  const { warmMicros, coldMicros, warmCpuMicros, coldCpuMicros, fakeMicros, blockedMs, bytes } = await pipelineCost();
  show('first sync, warm, a service', warmMicros, 'us');
  show('  of it the kernel in memory', fakeMicros, 'us');
  show('first sync, cold, a service', coldMicros, 'us');
  show('  CPU time, warm', warmCpuMicros, 'us');
  show('  CPU time, cold', coldCpuMicros, 'us');
  show('event loop blocked', blockedMs, 'ms');
  process.stdout.write(`kept for a service: ${bytes.model + bytes.plan} bytes, ${JSON.stringify(bytes)}\n`);
  for (const services of [100, 10_000, 50_000]) {
    show(`one endpoint, ${services} services`, await changeTimes({ ...ONE_ENDPOINT, services }, 1_000), 'ms');
  }
  show('1,000 endpoints at once, 10,000 services', await burstTimes(ONE_ENDPOINT, 1_000, 10), 'ms');
}

async function quickSummary(): Promise<void> {
  const cold: Run[] = [];
  for (let run = 0; run < 8; run++) cold.push(await coldRun(ONE_ENDPOINT));
  for (let run = 0; run < 5; run++) await firstSync(ONE_ENDPOINT);
  const warm: Run[] = [];
  for (let run = 0; run < 15; run++) warm.push(await firstSync(ONE_ENDPOINT));
  const cpu = ({ cpuMicros }: Run): number => cpuMicros;
  show('first sync, cold, CPU time', cold.map(cpu), 'us');
  show('first sync, warm, CPU time', warm.map(cpu), 'us');
  process.stdout.write(`${JSON.stringify(await keptBytes(ONE_ENDPOINT))}\n`);
}

async function profileSummary(): Promise<void> {
  const cold: SelfTimes = new Map();
  await firstSync(ONE_ENDPOINT, cold);
  for (let run = 0; run < 5; run++) await firstSync(ONE_ENDPOINT);
  const warm: SelfTimes = new Map();
  for (let run = 0; run < 15; run++) await firstSync(ONE_ENDPOINT, warm);
  process.stdout.write(`cold\n\n${profileTable(cold)}\nwarm\n\n${profileTable(warm)}`);
}

const MODES = { summary, quick: quickSummary, profile: profileSummary };

const [, program, mode = 'summary', ofShape] = process.argv;
if (program === import.meta.filename) {
  if (mode === 'cold' && ofShape !== undefined) {
    process.stdout.write(`${JSON.stringify(await firstSync(JSON.parse(ofShape) as ClusterShape))}\n`);
  } else await MODES[mode as keyof typeof MODES]();
}
