import { parseCidr } from '../../../src/base/cidr.ts';
import { BenchNode, Driver } from '../bench-node.ts';
import { type Recording, record, replay } from '../floor.ts';
import { type ClusterShape, SERVICE_CIDRS, listedEvents } from '../large-cluster.ts';
import { type Measurements, ratioAtMost, timed } from '../measure.ts';
import type { Row } from '../row.ts';
import { type Size, sizeName } from '../size.ts';

/**
 * Does the cost of a first sync follow the number of services? Addresses apart: of each one that it binds the kernel walks those
 * before. They are left out as --ipvs-unbound-cidrs leaves them out, and all else is programmed.
 */
export const scale: Row = {
  name: 'scale',
  async run(out, size) {
    for (const endpoints of size.quick ? [1] : [1, 5]) await scaleAt(endpoints, out, size);
  },
};

class Filled {
  readonly ours: number[] = [];
  readonly floor: number[] = [];
  readonly #shape: ClusterShape;
  #recording: Recording | undefined;

  constructor(shape: ClusterShape) {
    this.#shape = shape;
  }

  async run(): Promise<void> {
    const events = listedEvents(this.#shape);
    const unboundCidrs = SERVICE_CIDRS.map((text) => parseCidr(text)).filter((cidr) => cidr !== undefined);
    await using node = await BenchNode.make();
    const driver = new Driver(node.kernel, { unboundCidrs });
    this.ours.push(await timed(() => driver.take(events)));
    await driver.reconciler.stop();
    const ops = driver.takeOps();
    if (ops.some(({ kind }) => kind === 'bind-address')) throw new Error('an address was bound');
    if (this.#recording === undefined) {
      await using recorder = await BenchNode.make({ rules: false });
      this.#recording = await record(recorder, ops);
    }
    await using other = await BenchNode.make({ rules: false });
    this.floor.push(await replay(other, this.#recording));
    // Takes longer than all the rest, and what is replayed is the same each time.
    if (this.ours.length > 1) return;
    if ((await summary(node)) !== (await summary(other))) throw new Error('the replay left another state');
  }
}

/** Of all virtual servers with their real servers. Not from /proc/net/ip_vs: a long listing there leaves services out. */
async function summary(node: BenchNode): Promise<string> {
  return await node.run(['sh', '-c', 'ipvsadm -Sn | sort | cksum']);
}

async function scaleAt(endpoints: number, out: Measurements, size: Size): Promise<void> {
  const shapes = { small: size.mixed(10_000, endpoints), large: size.mixed(50_000, endpoints) };
  const small = new Filled(shapes.small);
  const large = new Filled(shapes.large);
  for (let run = 1; run <= size.slowRuns; run++) {
    out.progress(`${endpoints} endpoints, run ${run} of ${size.slowRuns}`);
    await small.run();
    await large.run();
  }
  const name = `first sync ${sizeName(shapes.large)} over ${sizeName(shapes.small)}, addresses apart`;
  const against = `the same at ${sizeName(shapes.small)}`;
  const target = ratioAtMost(5.5, 'at most 5.5 x');
  out.add({ name: `${name}: ours`, unit: 'ms', values: large.ours, against, baselines: small.ours, target });
  out.add({ name: `${name}: floor`, unit: 'ms', values: large.floor, against, baselines: small.floor });
}
