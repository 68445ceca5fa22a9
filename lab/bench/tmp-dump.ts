import { BenchNode, Driver } from './bench-node.ts';
import { listedEvents } from './large-cluster.ts';
import { makeSize } from './size.ts';
const size = makeSize({ quick: false, services: undefined, runs: undefined } as never);
for (const count of [100, 1000, 10000]) {
  const shape = { ...size.mixed(count, 10) };
  await using node = await BenchNode.make();
  const driver = new Driver(node.kernel);
  await driver.take(listedEvents(shape));
  const all = await node.kernel.getVirtualServers();
  const time = async (f: () => Promise<unknown>) => {
    await f();
    const runs: number[] = [];
    for (let i = 0; i < 7; i++) {
      const b = performance.now(), c = process.cpuUsage();
      await f();
      const u = process.cpuUsage(c);
      runs.push((u.user + u.system) / 1000);
      void b;
    }
    return runs.sort((a, b) => a - b)[3]!.toFixed(1);
  };
  const line = [`services ${count} virtual servers ${all.length}: dump ${await time(() => node.kernel.getVirtualServerStats())}`];
  for (const part of [1, 2, 4, 8, 16, 64]) {
    const ids = all.filter((_, i) => i % part === 0);
    line.push(`1/${part} (${ids.length}) ${await time(() => node.kernel.getVirtualServerStats(ids))}`);
  }
  if (count <= 1000) line.push(`dests ${await time(() => node.kernel.getRealServerStats(all))}`);
  console.log(line.join(', '));
  await driver.reconciler.stop();
}
process.exit(0);
