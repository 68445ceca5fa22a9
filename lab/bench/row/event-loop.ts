import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import type { LongProcess } from '../../../test/bed/long-process.ts';
import { createCommandRunner } from '../../../src/kernel/command-runner.ts';
import { FakeKernel } from '../../../test/fake-kernel/fake-kernel.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { chunks } from '../../../src/kernel/linux/slices.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import type { OpFailure, Outcome } from '../../../src/state/outcome.ts';
import { Transaction } from '../../../src/state/transaction.ts';
import { type BenchMode, BenchNode } from '../bench-node.ts';
import { DaemonNode, LOOP_PRELOAD, until } from '../daemon-process.ts';
import { type ClusterShape, listedEvents, scaledEvent } from '../large-cluster.ts';
import { type Held, LoopProbe } from '../loop-probe.ts';
import { type Measurements, type Target, valueAtMost } from '../measure.ts';
import { hasNfTables } from '../nf-tables.ts';
import type { Row } from '../row.ts';
import { type Size, sizeName } from '../size.ts';
import { UserSpace } from '../user-space.ts';

const TARGETED = { target: valueAtMost(50, 'at most 50 ms') };
const PAUSE_MS = 1_500;
/** What a burst takes in a slow kernel. */
const BURST_MS = 5_000;

/** How long at most nothing else gets its turn: with the kernel in memory. */
export const eventLoopUserSpace: Row = {
  name: 'event-loop-user-space',
  onHost: true,
  async run(out, size) {
    const make = async (): Promise<[Kernel, () => Promise<void>]> => {
      const kernel = new FakeKernel();
      await kernel.prepare();
      return [inPieces(kernel), () => Promise.resolve()];
    };
    await phases(out, size, 'in user space', make);
  },
};

/**
 * On the real kernel; a machine with one CPU may be the kernel's for so long. First sync and full check start iptables: what starting
 * a single process takes here is reported next to it.
 */
export const eventLoop: Row = {
  name: 'event-loop',
  async run(out, size) {
    const { wallMs, cpuMs } = await held(async () => void (await createCommandRunner().run('true', [])));
    out.add({ name: 'event loop held: one process started, nothing else', unit: 'ms', values: [wallMs] });
    out.add({ name: "event loop held: one process started, this thread's own work", unit: 'ms', values: [cpuMs] });
    await phases(out, size, 'on the real kernel', async () => {
      const node = await BenchNode.make();
      return [node.kernel, () => node[Symbol.asyncDispose]()];
    });
  },
};

/** The bundled daemon as a process, the API server's lists and watches in it. */
export const eventLoopDaemon: Row = { name: 'event-loop-daemon', run: (out, size) => ofDaemon('ipvs', out, size) };

/** The same in nftables mode. */
export const nftablesEventLoopDaemon: Row = {
  name: 'nftables-event-loop-daemon',
  async run(out, size) {
    if (await hasNfTables(out)) await ofDaemon('nftables', out, size);
  },
};

async function ofDaemon(mode: BenchMode, out: Measurements, size: Size): Promise<void> {
  const shape = size.mixed(10_000, 5);
  const services = plainServices(shape);
  const all = new Map<string, Held[]>();
  for (let run = 1; run <= size.slowRuns; run++) {
    out.progress(`run ${run} of ${size.slowRuns}`);
    await using node = await DaemonNode.make(shape, mode);
    const { process, firstSync } = await startProbed(node);
    const note = async (what: string): Promise<void> => {
      const held = all.get(what) ?? [];
      all.set(what, [...held, await heldSince(process)]);
    };
    await until(async () => (await node.metrics()).size > 0);
    await note(STARTING);
    await firstSync;
    await note('first sync');
    await sleep(PAUSE_MS);
    await node.api.scale({ services, endpoints: shape.endpoints + 1 });
    await sleep(BURST_MS);
    await note(`${services.length} changes at once`);
    await node.api.scale({ services: services.slice(0, 1), endpoints: shape.endpoints });
    await sleep(PAUSE_MS);
    await note('one change');
  }
  for (const [what, held] of all) {
    const name = `${what} at ${sizeName(shape)}, the daemon as a process in ${mode} mode`;
    add(out, name, held, what === STARTING ? {} : TARGETED);
  }
}

/** It loads and compiles its modules: nothing waits for a process that does not listen yet. */
const STARTING = 'start, until it answers';

async function startProbed(node: DaemonNode): Promise<{ process: LongProcess; firstSync: Promise<number> }> {
  const started = await node.start({ runtime: ['--import', LOOP_PRELOAD] });
  return { process: started.process, firstSync: started.firstSync() };
}

/** The worst since the last time that the daemon was asked. */
async function heldSince(daemon: LongProcess): Promise<Held> {
  const lines = (): readonly RegExpExecArray[] => [...daemon.output.matchAll(/event loop held (.*)\n/g)];
  const before = lines().length;
  daemon.signal('SIGUSR2');
  await until(() => lines().length > before);
  return JSON.parse(lines().at(-1)?.[1] ?? '') as Held;
}

async function phases(
  out: Measurements,
  size: Size,
  where: string,
  make: () => Promise<[Kernel, () => Promise<void>]>,
): Promise<void> {
  for (const shape of [size.mixed(10_000, 5), size.mixed(10_000, 10)]) {
    out.progress(`${sizeName(shape)} ${where}`);
    const [kernel, dispose] = await make();
    const space = new UserSpace(kernel);
    const scaled = (endpoints: number, services: readonly number[]): readonly SourceEvent[] =>
      services.map((service) => scaledEvent(service, shape, endpoints));
    const name = (what: string): string => `${what} at ${sizeName(shape)} ${where}`;
    const events = listedEvents(shape);
    add(out, name('first sync'), [await held(() => space.sync(events))]);
    const services = plainServices(shape);
    const burst = scaled(shape.endpoints + 1, services);
    add(out, name(`${services.length} changes at once`), [await held(() => space.sync(burst))]);
    const one = scaled(shape.endpoints, services.slice(0, 1));
    add(out, name('one change'), [await held(() => space.sync(one))]);
    add(out, name('full check'), [await held(() => space.fullCheck())]);
    await space.stop();
    await dispose();
  }
}

/** The real kernel works in another thread: the one in memory shall not hold up ours either. */
function inPieces(kernel: Kernel): Kernel {
  const apply = async (tx: Transaction): Promise<Outcome> => {
    const failures: OpFailure[] = [];
    for (const piece of chunks([...tx], 500)) {
      failures.push(...(await kernel.apply(new Transaction(piece))).failures);
      await setImmediate();
    }
    return { failures };
  };
  return new Proxy(kernel, {
    get: (target, property) => {
      if (property === 'apply') return apply;
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

/** Every tenth service is scaled: a plain one. */
function plainServices({ services }: ClusterShape): readonly number[] {
  return Array.from({ length: Math.trunc(services / 10) }, (_, index) => index * 10 + 1);
}

async function held(run: () => Promise<void>): Promise<Held> {
  const probe = new LoopProbe();
  probe.start();
  await run();
  const worst = probe.take();
  probe.stop();
  return worst;
}

function add(
  out: Measurements,
  name: string,
  held: readonly Held[],
  target: { readonly target?: Target } = TARGETED,
): void {
  const common = { unit: 'ms', ...target };
  out.add({ name: `event loop held: ${name}`, values: held.map(({ wallMs }) => wallMs), ...common });
  out.add({
    name: `event loop held: ${name}, this thread's own work`,
    values: held.map(({ cpuMs }) => cpuMs),
    ...common,
  });
}
