import { FakeKernel } from '../../../test/fake-kernel/fake-kernel.ts';
import { Transaction } from '../../../src/state/transaction.ts';
import type { Outcome } from '../../../src/state/outcome.ts';
import { listedEvents } from '../large-cluster.ts';
import { weigh } from '../heap.ts';
import type { Row } from '../row.ts';
import { UserSpace } from '../user-space.ts';

/** Takes everything and keeps nothing but sets without entries: what is weighed is ours. */
class ForgetfulKernel extends FakeKernel {
  override async apply(tx: Transaction): Promise<Outcome> {
    await super.apply(new Transaction(tx.of('create-set')));
    return { failures: [] };
  }
}

/** What the daemon keeps of each service and of each endpoint, on the heap, from the difference of clusters of several sizes. */
export const footprint: Row = {
  name: 'footprint',
  onHost: true,
  async run(out, size) {
    const many = size.services(10_000);
    const few = Math.max(1, Math.trunc(many / 10));
    const perService: number[] = [];
    const perEndpoint: number[] = [];
    for (let run = 1; run <= size.slowRuns; run++) {
      const [small, large, wide] = [await kept(few, 1), await kept(many, 1), await kept(many, 10)];
      perService.push((large - small) / (many - few));
      perEndpoint.push((wide - large) / (9 * many));
    }
    out.add({ name: `kept of a service with one endpoint, of ${many}`, unit: 'bytes', values: perService });
    out.add({ name: `kept of each further endpoint, of ${10 * many}`, unit: 'bytes', values: perEndpoint });
  },
};

/** Bytes on the heap that are there for a cluster of plain services. */
async function kept(services: number, endpoints: number): Promise<number> {
  const kernel = new ForgetfulKernel();
  await kernel.prepare();
  const before = await weigh();
  const space = new UserSpace(kernel);
  await space.sync(listedEvents({ services, endpoints, dualStackEvery: 0, nodePortEvery: 0, udpEvery: 0 }));
  const after = await weigh();
  // Until here it is in use: nothing of it may be collected before it was weighed.
  await space.stop();
  return after.heap - before.heap;
}
