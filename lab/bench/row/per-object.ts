import { BenchNode, Driver } from '../bench-node.ts';
import { record, replaySingly } from '../floor.ts';
import { listedEvents } from '../large-cluster.ts';
import { ratioAtMost, timed } from '../measure.ts';
import { mustHold, programmed } from '../programmed.ts';
import type { Row } from '../row.ts';
import { sizeName } from '../size.ts';
import { addByProcesses } from '../tools.ts';

/** As kube-proxy does it: a round trip for each address, virtual server and real server, a process for each set entry. */
export const perObject: Row = {
  name: 'per-object',
  async run(out, size) {
    // A process for each entry takes minutes soon.
    const shape = size.mixed(size.quick ? 500 : 1_000, 5);
    const events = listedEvents(shape);
    const ours: number[] = [];
    const singly: number[] = [];
    for (let run = 1; run <= size.slowRuns; run++) {
      out.progress(`run ${run} of ${size.slowRuns}`);
      await using node = await BenchNode.make();
      const driver = new Driver(node.kernel);
      ours.push(await timed(() => driver.take(events)));
      await driver.reconciler.stop();
      const wanted = await programmed(node);
      await using recorder = await BenchNode.make({ rules: false });
      const recording = await record(recorder, driver.takeOps());
      await using other = await BenchNode.make({ rules: false });
      // The sets first, as there are none yet whose names could be taken.
      const processesMs = await addByProcesses(other, wanted.sets);
      singly.push(processesMs + (await replaySingly(other, recording)));
      await mustHold(other, wanted, 'object by object');
    }
    out.add({
      name: `first sync ${sizeName(shape)}: whole, over object by object at the same size`,
      unit: 'ms',
      values: ours,
      against: 'a round trip for each object, a process for each set entry',
      baselines: singly,
      target: ratioAtMost(1 / 50, 'at least 50 times faster'),
    });
  },
};
