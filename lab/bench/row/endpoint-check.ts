import { setTimeout as sleep } from 'node:timers/promises';
import { EndpointChecker } from '../../../src/daemon/endpoint-check/endpoint-checker.ts';
import type { Kernel, KernelReader } from '../../../src/kernel/kernel.ts';
import type { ServiceModel } from '../../../src/model/service-model.ts';
import { createIpvsKernel } from '../../../src/kernel/ipvs/ipvs-kernel.ts';
import { SYSTEM_CLOCK } from '../../../src/reconcile/timing/clock.ts';
import type { VirtualServerStats } from '../../../src/state/server-stats.ts';
import { BenchNode, Driver } from '../bench-node.ts';
import { weigh } from '../heap.ts';
import { type ClusterShape, listedEvents } from '../large-cluster.ts';
import type { Measurements } from '../measure.ts';
import type { Row } from '../row.ts';
import type { Size } from '../size.ts';

const WATCHED_MS = 20_000;
const ONLY_TCP = { endpoints: 10, dualStackEvery: 0, nodePortEvery: 0, udpEvery: 0 };

/** What --ipvs-endpoint-check takes while each Service gets connections all the time, and while none does. */
export const endpointCheck: Row = {
  name: 'endpoint-check',
  async run(out, size) {
    for (const services of [100, 1_000]) await watch(out, size, { ...ONLY_TCP, services });
  },
};

async function watch(out: Measurements, size: Size, shape: ClusterShape): Promise<void> {
  await using node = await BenchNode.make();
  const driver = new Driver(node.kernel);
  await driver.take(listedEvents(shape));
  const here = createIpvsKernel({ log: node.log });
  const kernel = readerOf(node.kernel, here);
  const busy: number[] = [];
  const idle: number[] = [];
  const without: number[] = [];
  const memory: number[] = [];
  for (let run = 0; run < size.slowRuns; run++) {
    const before = await weigh();
    const checker = checkerOf(driver, withTraffic(kernel));
    busy.push(await processorMsPerMinute());
    memory.push(((await weigh()).heap - before.heap) / 1024);
    checker.stop();
    const quiet = checkerOf(driver, kernel);
    idle.push(await processorMsPerMinute());
    quiet.stop();
    without.push(await processorMsPerMinute());
  }
  await driver.reconciler.stop();
  await here.close();
  const what = `endpoint check, ${shape.services} Services x ${shape.endpoints}`;
  const against = 'without a checked Service';
  const unit = 'ms';
  out.add({ name: `${what}, all busy: CPU a minute`, unit, values: busy, baselines: without, against });
  out.add({ name: `${what}, all idle: CPU a minute`, unit, values: idle, baselines: without, against });
  out.add({ name: `${what}: heap`, unit: 'KiB', values: memory });
}

async function processorMsPerMinute(): Promise<number> {
  const before = process.cpuUsage();
  await sleep(WATCHED_MS);
  const { user, system } = process.cpuUsage(before);
  return ((user + system) / 1_000) * (60_000 / WATCHED_MS);
}

type Counted = Pick<KernelReader, 'getTrafficTotals' | 'getVirtualServerStats' | 'getRealServerStats'>;

/** The daemon reads the file of totals in its own network namespace; from another one, a read takes a process. */
function readerOf(kernel: Kernel, here: Kernel): Counted {
  return {
    getTrafficTotals: () => here.getTrafficTotals(),
    getVirtualServerStats: (ids) => kernel.getVirtualServerStats(ids),
    getRealServerStats: (ids) => kernel.getRealServerStats(ids),
  };
}

/** The kernel, as if each real server had got connections and answered since the last read of all. */
function withTraffic(kernel: Counted): Counted {
  let reads = 0;
  const grown = <S extends VirtualServerStats>(stats: S): S => ({
    ...stats,
    connections: 2 * reads,
    incomingPackets: 10 * reads,
    outgoingPackets: 9 * reads,
  });
  return {
    async getTrafficTotals() {
      reads += 1;
      const totals = await kernel.getTrafficTotals();
      return totals && grown(totals);
    },
    async getVirtualServerStats(ids) {
      const all = await kernel.getVirtualServerStats(ids);
      return new Map(Array.from(all, ([key, stats]) => [key, grown(stats)]));
    },
    async getRealServerStats(ids) {
      const all = await kernel.getRealServerStats(ids);
      return new Map(Array.from(all, ([key, servers]) => [key, servers.map(grown)]));
    },
  };
}

/** A checker of all Services, which only observes. */
function checkerOf({ reconciler, log }: Driver, kernel: Counted): EndpointChecker {
  const checker = new EndpointChecker({
    acts: false,
    kernel,
    clock: SYSTEM_CLOCK,
    log,
    left: new Map(),
    connect: () => Promise.resolve('answered'),
    hasLinkTo: () => Promise.resolve(true),
    ownerOf: (key) => reconciler.plan.ownerOf(key),
    onJudged: () => undefined,
    onSilent: () => undefined,
    onConnected: () => undefined,
  });
  const model = { requests: { endpointCheck: true } } as ServiceModel;
  for (const plan of reconciler.plan.services()) checker.apply(model, plan);
  checker.start();
  return checker;
}
