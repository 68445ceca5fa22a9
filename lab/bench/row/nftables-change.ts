import { BenchNode, Driver } from '../bench-node.ts';
import { clusterIp, growthIp, listedEvents, scaledEvent } from '../large-cluster.ts';
import { ratioAtMost, timed } from '../measure.ts';
import { NetnsShell } from '../netns-shell.ts';
import { hasNfTables } from '../nf-tables.ts';
import { holdsRealServer } from '../real-servers.ts';
import { replayGrowth } from '../nft-change-floor.ts';
import type { Row } from '../row.ts';
import { sizeName } from '../size.ts';
import { executeByNft } from '../tools.ts';

/** Changes of other services before: a daemon that has made some runs compiled code. */
const WARM_UP = 50;

/** One endpoint more; plain TCP services of one family: each second from 1 on grows by our hand, the one after it by nft's. */
export const nftablesChange: Row = {
  name: 'nftables-change',
  async run(out, size) {
    if (!(await hasNfTables(out))) return;
    const shape = size.mixed(10_000, 5);
    await using node = await BenchNode.make({ mode: 'nftables' });
    const driver = new Driver(node.kernel);
    await driver.take(listedEvents(shape));
    for (let change = 0; change < WARM_UP; change++) {
      await driver.take([scaledEvent(((change * 10) % shape.services) + 4, shape, shape.endpoints + 1)]);
    }
    await using shell = new NetnsShell(node.path);
    const ours: number[] = [];
    const tool: number[] = [];
    for (let run = 0; run < size.runs; run++) {
      const mine = run * 20 + 1;
      const theirs = mine + 1;
      const event = scaledEvent(mine, shape, shape.endpoints + 1);
      ours.push(await timed(() => driver.take([event])));
      await mustHold(node, mine);
      tool.push(await executeByNft(shell, growth(theirs, shape.endpoints)));
      await mustHold(node, theirs);
    }
    await driver.reconciler.stop();
    // A service that has not grown yet, neither by our hand nor by nft's.
    const floor = await replayGrowth(node, 3, shape.endpoints, size.runs);
    const name = `change in nftables mode: one endpoint more at ${sizeName(shape)}`;
    const target = ratioAtMost(1 / 100, 'at least 100 times faster');
    out.add({ name, unit: 'ms', values: ours, against: 'nft -f of the same elements', baselines: tool, target });
    out.add({
      name: `${name}, over the floor`,
      unit: 'ms',
      values: ours,
      against: 'floor: raw replay of the transaction',
      baselines: floor,
    });
  },
};

/** The chain for so many endpoints is there: a service that has grown by our hand uses it. */
function growth(service: number, endpoints: number): string {
  const key = `${clusterIp(service, 4)} . tcp . 80`;
  return [
    `delete element ip kube-proxy service-ips { ${key} }`,
    `add element ip kube-proxy service-endpoints { ${key} . ${endpoints} : ${growthIp(service, 4)} . 8080 }`,
    `add element ip kube-proxy service-ips { ${key} : goto choose-${endpoints + 1} }`,
    '',
  ].join('\n');
}

async function mustHold(node: BenchNode, service: number): Promise<void> {
  if (!(await holdsRealServer(node.kernel, service))) throw new Error(`service ${service} has not grown in the tables`);
}
