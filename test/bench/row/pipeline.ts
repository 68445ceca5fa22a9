import { FakeKernel } from '../../../src/kernel/fake-kernel.ts';
import { Driver } from '../bench-node.ts';
import { listedEvents } from '../large-cluster.ts';
import { timed } from '../measure.ts';
import type { Row } from '../row.ts';

/** All of our own work, no kernel: from listed objects to applied operations. */
export const pipeline: Row = {
  name: 'pipeline',
  async run(out, size) {
    const services = size.services(10_000);
    const shape = { services, endpoints: 1, dualStackEvery: 0, nodePortEvery: 0, udpEvery: 0 };
    const events = listedEvents(shape);
    const values: number[] = [];
    for (let run = 0; run < size.runs; run++) {
      const kernel = new FakeKernel();
      await kernel.prepare();
      const driver = new Driver(kernel);
      values.push(((await timed(() => driver.take(events))) * 1_000) / services);
      await driver.reconciler.stop();
    }
    out.add({ name: 'user-space pipeline, a service with one endpoint', unit: 'µs', values });
  },
};
