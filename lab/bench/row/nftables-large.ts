import { type BenchMode, BenchNode, Driver } from '../bench-node.ts';
import { type ClusterShape, listedEvents, scaledEvent } from '../large-cluster.ts';
import { timed } from '../measure.ts';
import { hasNfTables } from '../nf-tables.ts';
import { holdsRealServer } from '../real-servers.ts';
import type { Row } from '../row.ts';
import { sizeName } from '../size.ts';

const SERVICES = 44_000;
const CHANGES = 20;

interface Costs {
  readonly firstSync: number[];
  readonly change: number[];
}

/** The largest cluster that kube-proxy's nftables mode was reported with, in both modes. */
export const nftablesLarge: Row = {
  name: 'nftables-large',
  onlyByName: true,
  async run(out, size) {
    if (!(await hasNfTables(out))) return;
    const shape = size.mixed(SERVICES, 5);
    out.progress('nftables mode');
    const nftables = await measure(shape, 'nftables');
    out.progress('ipvs mode');
    const ipvs = await measure(shape, 'ipvs');
    const against = { unit: 'ms', against: 'ipvs mode' };
    out.add({
      name: `first sync ${sizeName(shape)} in nftables mode`,
      values: nftables.firstSync,
      baselines: ipvs.firstSync,
      ...against,
    });
    out.add({
      name: `one endpoint more at ${sizeName(shape)} in nftables mode`,
      values: nftables.change,
      baselines: ipvs.change,
      ...against,
    });
  },
};

async function measure(shape: ClusterShape, mode: BenchMode): Promise<Costs> {
  const events = listedEvents(shape);
  await using node = await BenchNode.make({ mode });
  const driver = new Driver(node.kernel);
  const costs: Costs = { firstSync: [], change: [] };
  costs.firstSync.push(await timed(() => driver.take(events)));
  for (let change = 1; change <= CHANGES; change++) {
    // Services 1 to 9 of each ten are plain ones.
    const service = 10 * change + 1;
    const event = scaledEvent(service, shape, shape.endpoints + 1);
    costs.change.push(await timed(() => driver.take([event])));
    if (!(await holdsRealServer(node.kernel, service))) throw new Error(`service ${service} has not grown`);
  }
  await driver.reconciler.stop();
  return costs;
}
