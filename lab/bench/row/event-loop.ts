import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { createCommandRunner } from '../../../src/kernel/command-runner.ts';
import { FakeKernel } from '../../../test/fake-kernel/fake-kernel.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { chunks } from '../../../src/kernel/linux/slices.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import type { OpFailure, Outcome } from '../../../src/state/outcome.ts';
import { Transaction } from '../../../src/state/transaction.ts';
import { BenchNode } from '../bench-node.ts';
import { DaemonNode, LOOP_PRELOAD } from '../daemon-process.ts';
import { type ClusterShape, listedEvents, scaledEvent } from '../large-cluster.ts';
import { type Held, LoopProbe } from '../loop-probe.ts';
import { type Measurements, valueAtMost } from '../measure.ts';
import type { Row } from '../row.ts';
import { type Size, sizeName } from '../size.ts';
import { UserSpace } from '../user-space.ts';

const TARGET = valueAtMost(50, 'at most 50 ms');
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
export const eventLoopDaemon: Row = {
  name: 'event-loop-daemon',
  async run(out, size) {
    const shape = size.mixed(10_000, 5);
    await using node = await DaemonNode.make(shape);
    const started = await node.start({ runtime: ['--import', LOOP_PRELOAD] });
    await started.firstSync();
    let seen = 0;
    const report = async (what: string): Promise<void> => {
      started.process.signal('SIGUSR2');
      await started.process.waitForOutput(new RegExp(`(?:event loop held .*\\n[^]*){${++seen}}`), 10_000);
      const lines = [...started.process.output.matchAll(/event loop held (.*)/g)];
      add(out, `${what} at ${sizeName(shape)}, the daemon as a process`, JSON.parse(lines.at(-1)?.[1] ?? '') as Held);
    };
    await report('start and first sync');
    const services = plainServices(shape);
    await sleep(PAUSE_MS);
    await node.api.scale({ services, endpoints: shape.endpoints + 1 });
    await sleep(BURST_MS);
    await report(`${services.length} changes at once`);
    await node.api.scale({ services: services.slice(0, 1), endpoints: shape.endpoints });
    await sleep(PAUSE_MS);
    await report('one change');
  },
};

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
    add(out, name('first sync'), await held(() => space.sync(events)));
    const services = plainServices(shape);
    const burst = scaled(shape.endpoints + 1, services);
    add(out, name(`${services.length} changes at once`), await held(() => space.sync(burst)));
    const one = scaled(shape.endpoints, services.slice(0, 1));
    add(out, name('one change'), await held(() => space.sync(one)));
    add(out, name('full check'), await held(() => space.fullCheck()));
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

function add(out: Measurements, name: string, { wallMs, cpuMs }: Held): void {
  out.add({ name: `event loop held: ${name}`, unit: 'ms', values: [wallMs], target: TARGET });
  out.add({ name: `event loop held: ${name}, this thread's own work`, unit: 'ms', values: [cpuMs], target: TARGET });
}
