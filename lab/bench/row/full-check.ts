import { BenchNode, Driver } from '../bench-node.ts';
import { listedEvents } from '../large-cluster.ts';
import { ratioAtMost, valueAtMost } from '../measure.ts';
import { NetnsShell } from '../netns-shell.ts';
import type { Row } from '../row.ts';
import { sizeName } from '../size.ts';

/** The periodic check of a kernel that is as it should be. */
export const fullCheck: Row = {
  name: 'full-check',
  async run(out, size) {
    const shape = size.mixed(10_000, 10);
    await using node = await BenchNode.make();
    const driver = new Driver(node.kernel);
    await driver.take(listedEvents(shape));
    await using shell = new NetnsShell(node.path);
    const ours = { wall: [] as number[], cpu: [] as number[], writes: [] as number[] };
    const tool = { wall: [] as number[], cpu: [] as number[] };
    for (let run = 1; run <= size.runs; run++) {
      const { writes } = node.kernel.counters;
      const cpu = process.cpuUsage();
      const report = await driver.fullCheck();
      const used = process.cpuUsage(cpu);
      if (report.operations.size > 0) throw new Error('a check of an unchanged kernel planned operations');
      ours.wall.push(report.durationMs);
      ours.cpu.push((used.user + used.system) / 1_000);
      ours.writes.push(node.kernel.counters.writes - writes);
      const times = await shell.time('ipvsadm -Sn; ipset save; ip addr');
      tool.wall.push(times.wallMs);
      tool.cpu.push(times.cpuMs);
    }
    await driver.reconciler.stop();
    const against = 'ipvsadm -Sn + ipset save + ip addr';
    const name = `full check without change, ${sizeName(shape)}`;
    out.add({ name: `${name}: wall`, unit: 'ms', values: ours.wall, against, baselines: tool.wall });
    const cpuTarget = ratioAtMost(1, 'at most the CPU of the tools');
    out.add({
      name: `${name}: CPU`,
      unit: 'ms',
      values: ours.cpu,
      against,
      baselines: tool.cpu,
      target: cpuTarget,
      guarded: true,
    });
    const writesTarget = valueAtMost(0, 'no writes');
    out.add({ name: `${name}: writes`, unit: 'messages', values: ours.writes, target: writesTarget });
  },
};
