import { BenchNode, Driver } from '../bench-node.ts';
import { clusterIp, growthIp, listedEvents, scaledEvent } from '../large-cluster.ts';
import { timed } from '../measure.ts';
import { NetnsShell } from '../netns-shell.ts';
import { holdsRealServer } from '../real-servers.ts';
import type { Row } from '../row.ts';
import { sizeName } from '../size.ts';

/** One endpoint more; plain TCP services of one family: each second from 1 on grows by our hand, the one after it by the tool's. */
export const change: Row = {
  name: 'change',
  async run(out, size) {
    const shape = size.mixed(10_000, 10);
    await using node = await BenchNode.make();
    const driver = new Driver(node.kernel);
    await driver.take(listedEvents(shape));
    await using shell = new NetnsShell(node.path);
    const ours: number[] = [];
    const tool: number[] = [];
    for (let run = 0; run < size.runs; run++) {
      const mine = run * 20 + 1;
      const theirs = mine + 1;
      const before = node.kernel.counters.processesStarted;
      const event = scaledEvent(mine, shape, shape.endpoints + 1);
      ours.push(await timed(() => driver.take([event])));
      if (node.kernel.counters.processesStarted !== before) throw new Error('a change started a process');
      await mustHold(node, mine);
      const argument = `-t ${clusterIp(theirs, 4)}:80 -r ${growthIp(theirs, 4)}:8080 -m -w 1`;
      tool.push((await shell.time(`ipvsadm -a ${argument}`)).wallMs);
      await mustHold(node, theirs);
    }
    await driver.reconciler.stop();
    const name = `change: one endpoint more at ${sizeName(shape)}`;
    out.add({ name, unit: 'ms', values: ours, against: 'one ipvsadm -a process', baselines: tool });
  },
};

async function mustHold(node: BenchNode, service: number): Promise<void> {
  if (!(await holdsRealServer(node.kernel, service))) throw new Error(`service ${service} has not grown in the kernel`);
}
