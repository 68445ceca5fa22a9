import { BenchNode, Driver } from '../bench-node.ts';
import { listedEvents } from '../large-cluster.ts';
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
    const sum = (pattern: RegExp): number =>
      [...counts].filter(([name]) => pattern.test(name)).reduce((total, [, count]) => total + count, 0);
    const add = (name: string, value: number): void =>
      void out.add({ name: `first-sync processes: ${name}`, unit: 'processes', values: [value] });
    add('iptables-restore', sum(/tables.*-restore$/));
    add('iptables-save', sum(/tables.*-save$/));
    add('all others', sum(/^(?!.*-(save|restore)$)/));
  },
};
