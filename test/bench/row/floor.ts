import { BenchNode, Driver } from '../bench-node.ts';
import { record, replay } from '../floor.ts';
import { listedEvents } from '../large-cluster.ts';
import { ratioAtMost, timed } from '../measure.ts';
import type { Row } from '../row.ts';
import { sizeName } from '../size.ts';

/** How much of a first sync is the kernel's own time. */
export const floor: Row = {
  name: 'floor',
  async run(out, size) {
    const shape = size.mixed(10_000, 5);
    const ours: number[] = [];
    const oursApply: number[] = [];
    const raw: number[] = [];
    for (let run = 1; run <= size.runs; run++) {
      out.progress(`run ${run} of ${size.runs}`);
      await using node = await BenchNode.make();
      const driver = new Driver(node.kernel);
      const events = listedEvents(shape);
      ours.push(await timed(() => driver.take(events)));
      await driver.reconciler.stop();
      await using recorder = await BenchNode.make();
      const recording = await record(recorder, driver.ops);
      await using other = await BenchNode.make();
      raw.push(await replay(other, recording));
      await using third = await BenchNode.make();
      oursApply.push(await timed(() => third.kernel.apply({ ops: driver.ops })));
      const [wanted, found] = await Promise.all([node, other].map((filled) => filled.kernel.getBoundAddresses()));
      if (wanted?.length !== found?.length) throw new Error('the replay left another state');
    }
    const against = 'raw replay of the same netlink messages: the floor';
    const name = `first sync ${sizeName(shape)}`;
    const target = ratioAtMost(1.3, 'at most 1.3 x the floor');
    out.add({ name: `${name}, over the floor`, unit: 'ms', values: ours, against, baselines: raw, target });
    const alone = `${name}, its transaction alone, over the floor`;
    out.add({ name: alone, unit: 'ms', values: oursApply, against, baselines: raw });
  },
};
