import { BenchNode, Driver, PLAN } from '../bench-node.ts';
import { listedEvents } from '../large-cluster.ts';
import { valueAtMost } from '../measure.ts';
import type { Row } from '../row.ts';
import { countProcesses } from '../processes.ts';

/** Programs started by a first sync, whatever the size. */
export const processes: Row = {
  name: 'processes',
  async run(out) {
    const shape = { services: 200, endpoints: 5, dualStackEvery: 20, nodePortEvery: 20, udpEvery: 20 };
    await using node = await BenchNode.make();
    const driver = new Driver(node.kernel);
    const counts = await countProcesses(() => driver.take(listedEvents(shape)));
    await driver.reconciler.stop();
    const kinds = [...counts].map(([name, count]) => `${name} ${count}`).join(', ');
    out.progress(kinds);
    const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
    const target = valueAtMost(PLAN.families.length, 'one for each iptables family');
    out.add({ name: 'processes started by a first sync', unit: 'processes', values: [total], target });
  },
};
