import { setTimeout as sleep } from 'node:timers/promises';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import type { Op } from '../../../src/state/op.ts';
import { now } from '../api-process.ts';
import { FakeKernel } from '../../../test/fake-kernel/fake-kernel.ts';
import { BenchNode, Driver } from '../bench-node.ts';
import { DaemonNode, until } from '../daemon-process.ts';
import { record, replay } from '../floor.ts';
import { type ClusterShape, listedEvents, scaledEvent } from '../large-cluster.ts';
import { ratioAtMost, timed, valueAtMost } from '../measure.ts';
import { holdsRealServer } from '../real-servers.ts';
import type { Row } from '../row.ts';
import { type Size, sizeName } from '../size.ts';
import { Transaction } from '../../../src/state/transaction.ts';

/** --ipvs-min-sync-period of the daemon, and some. */
const PAUSE_MS = 1_500;

/**
 * The floor is one message for each change. Reading the slice and planning take more than that message on any kernel, and a
 * test kernel with one CPU does not overlap them.
 */
const TIMES = 8;
/** Of user space, for each change. */
const MICROS = 40;

/** So many thousand changes there and back, before anything is measured. */
const WARM_UP = 5;

/**
 * A thousand services of ten thousand get an endpoint more at once, against the bare messages of just these changes.
 */
export const burst: Row = {
  name: 'burst',
  async run(out, size) {
    const { shape, services } = scene(size);
    await using node = await BenchNode.make();
    const driver = new Driver(node.kernel);
    await driver.take(listedEvents(shape));
    driver.takeOps();
    const changes = await warmUp(driver, shape, services);
    if (changes.length !== services.length)
      throw new Error(`${changes.length} operations for ${services.length} changes`);
    const recording = await record(node, changes);
    const takeBack = new Transaction(changes.flatMap((op) => deletionOf(op)));
    const ours: number[] = [];
    const floor: number[] = [];
    for (let run = 1; run <= size.runs; run++) {
      await node.kernel.apply(takeBack);
      // The part of the watch: the cost of creating its objects is not measured.
      const events = scaled(services, shape, shape.endpoints + 1);
      ours.push(await timed(() => driver.take(events)));
      await mustHold(node, services, true);
      await driver.take(scaled(services, shape, shape.endpoints));
      await mustHold(node, services, false);
      driver.takeOps();
      floor.push(await replay(node, recording));
      await mustHold(node, services, true);
    }
    await driver.reconciler.stop();
    const name = `${services.length} changes at once at ${sizeName(shape)}`;
    const against = 'raw replay of the messages of just these changes: the floor';
    const target = ratioAtMost(TIMES, `at most ${TIMES} x the floor`);
    out.add({ name, unit: 'ms', values: ours, against, baselines: floor, target });
  },
};

/** The same without a kernel: what reading the slice, planning, comparing and ordering take on the machine itself. */
export const burstUserSpace: Row = {
  name: 'burst-user-space',
  onHost: true,
  async run(out, size) {
    const { shape, services } = scene(size);
    const kernel = new FakeKernel();
    await kernel.prepare();
    const driver = new Driver(kernel);
    await driver.take(listedEvents(shape));
    driver.takeOps();
    await warmUp(driver, shape, services);
    const values: number[] = [];
    for (let run = 1; run <= size.runs; run++) {
      const events = scaled(services, shape, shape.endpoints + 1);
      const before = process.threadCpuUsage();
      await driver.take(events);
      const { user, system } = process.threadCpuUsage(before);
      values.push((user + system) / services.length);
      await driver.take(scaled(services, shape, shape.endpoints));
      driver.takeOps();
    }
    await driver.reconciler.stop();
    const name = `each of ${services.length} changes at once at ${sizeName(shape)} in user space: CPU time of the main thread`;
    out.add({ name, unit: 'µs', values, target: valueAtMost(MICROS, `at most ${MICROS} µs`) });
  },
};

/** The same the whole way: from the API server's first event to the last change in the kernel. */
export const watchBurst: Row = {
  name: 'watch-burst',
  async run(out, size) {
    const { shape, services } = scene(size);
    await using node = await DaemonNode.make(shape);
    await (await node.start()).firstSync();
    const ours: number[] = [];
    for (let run = 1; run <= size.runs; run++) {
      await sleep(PAUSE_MS);
      const given = await node.api.scale({ services, endpoints: shape.endpoints + 1 });
      for (const service of services) await until(() => holdsRealServer(node.bench.kernel, service));
      ours.push(now() - given);
      await sleep(PAUSE_MS);
      await node.api.scale({ services, endpoints: shape.endpoints });
      for (const service of services) await until(async () => !(await holdsRealServer(node.bench.kernel, service)));
    }
    const name = `${services.length} changes at once at ${sizeName(shape)}, watch event to kernel, a pause of --ipvs-min-sync-period in it`;
    out.add({ name, unit: 'ms', values: ours });
  },
};

/** The slices of these services with so many endpoints. */
function scaled(services: readonly number[], shape: ClusterShape, endpoints: number): SourceEvent[] {
  return services.map((service) => scaledEvent(service, shape, endpoints));
}

/** Until the code is compiled, as that of a daemon is. Returns the operations of such a burst. */
async function warmUp(driver: Driver, shape: ClusterShape, services: readonly number[]): Promise<readonly Op[]> {
  let changes: readonly Op[] = [];
  for (let round = 1; round <= WARM_UP; round++) {
    await driver.take(scaled(services, shape, shape.endpoints + 1));
    changes = driver.takeOps();
    await driver.take(scaled(services, shape, shape.endpoints));
    driver.takeOps();
  }
  return changes;
}

/** Every tenth service, a plain one, changes. */
function scene(size: Size): { readonly shape: ClusterShape; readonly services: readonly number[] } {
  const shape = size.mixed(10_000, 5);
  return { shape, services: Array.from({ length: Math.trunc(shape.services / 10) }, (_, index) => index * 10 + 1) };
}

function deletionOf(op: Op): Op[] {
  return op.kind === 'add-real-server' ? [{ ...op, kind: 'delete-real-server' }] : [];
}

async function mustHold(node: BenchNode, services: readonly number[], wanted: boolean): Promise<void> {
  for (const service of [services.at(0), services.at(-1)]) {
    if (service === undefined || (await holdsRealServer(node.kernel, service)) !== wanted) {
      throw new Error(`the change of service ${service} is ${wanted ? 'not ' : ''}in the kernel`);
    }
  }
}
