import { BenchNode, Driver } from '../bench-node.ts';
import { isIpvs } from '../floor.ts';
import { listedEvents } from '../large-cluster.ts';
import { timed } from '../measure.ts';
import type { Row } from '../row.ts';
import { sizeName } from '../size.ts';

/** A full table, then the same table by the system's own tool, in fresh namespaces, in turn. */
export const firstSync: Row = {
  name: 'first-sync',
  async run(out, size) {
    const shape = size.mixed(10_000, 5);
    const ours: number[] = [];
    const tool: number[] = [];
    const oursKernel: number[] = [];
    const oursIpvs: number[] = [];
    for (let run = 1; run <= size.runs; run++) {
      out.progress(`run ${run} of ${size.runs}`);
      await using node = await BenchNode.make();
      const driver = new Driver(node.kernel);
      const events = listedEvents(shape);
      ours.push(await timed(() => driver.take(events)));
      oursKernel.push(driver.kernelMs);
      await driver.reconciler.stop();
      const saved = await node.run(['ipvsadm', '-Sn']);
      await using other = await BenchNode.make();
      tool.push(await timed(() => other.run(['ipvsadm', '--restore'], saved)));
      await using third = await BenchNode.make();
      const ops = driver.ops.filter(isIpvs);
      oursIpvs.push(await timed(() => third.kernel.apply({ ops })));
      for (const filled of [other, third]) {
        if (sortedLines(await filled.run(['ipvsadm', '-Sn'])) !== sortedLines(saved)) {
          throw new Error(`${filled.netns} holds another table`);
        }
      }
    }
    const against = 'ipvsadm --restore of the same virtual servers';
    const name = `first sync ${sizeName(shape)}`;
    // What it does beyond the tool's work is in it: sets, their entries, addresses, and the processes for the rules.
    out.add({ name: `${name}, planning included`, unit: 'ms', values: ours, against, baselines: tool });
    out.add({ name: `${name}, programmed from the plan`, unit: 'ms', values: oursKernel, against, baselines: tool });
    out.add({ name: `${name}, IPVS part alone`, unit: 'ms', values: oursIpvs, against, baselines: tool });
  },
};

function sortedLines(text: string): string {
  return text.split('\n').sort().join('\n');
}
