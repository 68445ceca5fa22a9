import { FakeKernel } from '../../../test/fake-kernel/fake-kernel.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { parseCidr } from '../../../src/base/cidr.ts';
import { BenchNode, Driver } from '../bench-node.ts';
import { type ClusterShape, SERVICE_CIDRS, listedEvents, scaledEvent } from '../large-cluster.ts';
import { type Measurements, type Target, ratioAtMost } from '../measure.ts';
import { hasNfTables } from '../nf-tables.ts';
import type { Row } from '../row.ts';
import type { Size } from '../size.ts';

const SMALL = 100;
const LARGE = 50_000;
const LARGE_NFTABLES = 10_000;

/** Each service that changes grows by an endpoint, and after all the others have it shrinks again. */
const CHANGED = SMALL;

interface Grown {
  readonly shape: ClusterShape;
  readonly driver: Driver;
  readonly wall: number[];
  /** Milliseconds in all: kernels that count by ticks are right only in the long run. */
  cpu: number;
}

/** One endpoint more or less in a large cluster and in a small one, in turn: the cost has to follow the change. */
export const changeScale: Row = {
  name: 'change-scale',
  async run(out, size) {
    await using large = await BenchNode.make();
    await using small = await BenchNode.make();
    const target = ratioAtMost(1.2, 'at most 1.2 x the cost among 100');
    const where = 'on the real kernel, addresses not bound';
    await compare(out, size, { kernels: [large.kernel, small.kernel], services: LARGE, where, target });
  },
};

/** The same without a kernel's part: what is left is tens of microseconds, and more of them are waits for memory in a large cluster. */
export const changeScaleUserSpace: Row = {
  name: 'change-scale-user-space',
  onHost: true,
  async run(out, size) {
    const kernels = [new FakeKernel(), new FakeKernel()] as const;
    for (const kernel of kernels) await kernel.prepare();
    await compare(out, size, { kernels, services: LARGE, where: 'in user space' });
  },
};

/** The same in nftables mode. */
export const nftablesChangeScale: Row = {
  name: 'nftables-change-scale',
  async run(out, size) {
    if (!(await hasNfTables(out))) return;
    await using large = await BenchNode.make({ mode: 'nftables' });
    await using small = await BenchNode.make({ mode: 'nftables' });
    const kernels = [large.kernel, small.kernel] as const;
    const target = ratioAtMost(1.5, 'at most 1.5 x the cost among 100');
    await compare(out, size, { kernels, services: LARGE_NFTABLES, where: 'in nftables mode', target });
  },
};

interface Comparison {
  /** The first for the large cluster, the second for the small one. */
  readonly kernels: readonly [Kernel, Kernel];
  /** In the large cluster of the full bench. */
  readonly services: number;
  readonly where: string;
  readonly target?: Target;
}

async function compare(out: Measurements, size: Size, { kernels, services, where, target }: Comparison): Promise<void> {
  const large = await grow(out, kernels[0], Math.max(SMALL, size.services(services)));
  const small = await grow(out, kernels[1], SMALL);
  for (let run = 0; run < 2 * CHANGED; run++) for (const grown of [large, small]) await change(grown, run);
  for (const { driver } of [large, small]) await driver.reconciler.stop();
  const against = `the same among ${SMALL} services`;
  const name = `one endpoint change among ${large.shape.services} services, ${where}`;
  const unit = 'ms';
  out.add({ name, unit, values: large.wall, against, baselines: small.wall, ...(target && { target }) });
  const [values, baselines] = [large, small].map(({ cpu }) => [cpu / (2 * CHANGED)]);
  if (values !== undefined && baselines !== undefined) {
    out.add({ name: `${name}: CPU time, mean of ${2 * CHANGED}`, unit, values, against, baselines });
  }
}

async function grow(out: Measurements, kernel: Kernel, services: number): Promise<Grown> {
  out.progress(`fills a kernel with ${services} services`);
  // Filling kube-ipvs0 is quadratic in the kernel, and a change of endpoints never touches it: in both clusters alike nothing is bound.
  const unboundCidrs = SERVICE_CIDRS.flatMap((text) => parseCidr(text) ?? []);
  const driver = new Driver(kernel, { unboundCidrs });
  const shape = { services, endpoints: 1, dualStackEvery: 0, nodePortEvery: 0, udpEvery: 0 };
  await driver.take(listedEvents(shape));
  driver.takeOps();
  return { shape, driver, wall: [], cpu: 0 };
}

async function change(grown: Grown, run: number): Promise<void> {
  const { shape, driver, wall } = grown;
  const service = ((run % CHANGED) * 499) % shape.services;
  const event = scaledEvent(service, shape, run < CHANGED ? 2 : 1);
  const used = process.cpuUsage();
  const start = performance.now();
  await driver.take([event]);
  wall.push(performance.now() - start);
  const { user, system } = process.cpuUsage(used);
  grown.cpu += (user + system) / 1_000;
  if (driver.takeOps().length !== 1) throw new Error('one endpoint more or less is one operation');
}
