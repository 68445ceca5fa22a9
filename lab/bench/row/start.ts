import { DaemonNode } from '../daemon-process.ts';
import type { Row } from '../row.ts';

/** From exec to the end of the first sync, with little to sync: what it takes to be there. */
export const start: Row = {
  name: 'start',
  async run(out, size) {
    const shape = { services: 5, endpoints: 2, dualStackEvery: 0, nodePortEvery: 0, udpEvery: 0 };
    const ours: number[] = [];
    const bare: number[] = [];
    for (let run = 1; run <= size.runs; run++) {
      await using node = await DaemonNode.make(shape);
      const started = await node.start();
      ours.push(await started.firstSync());
      await started.process.stop();
      bare.push(await node.bareStart());
    }
    const name = `start to initial sync complete, ${shape.services} services`;
    out.add({ name, unit: 'ms', values: ours, against: 'node -e 0', baselines: bare });
  },
};
