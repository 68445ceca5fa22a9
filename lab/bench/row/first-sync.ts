import { BenchNode, Driver } from '../bench-node.ts';
import { type Recording, record, replay } from '../floor.ts';
import { listedEvents } from '../large-cluster.ts';
import { ratioAtMost, timed, valueAtMost } from '../measure.ts';
import { mustHold, programmed } from '../programmed.ts';
import type { Row } from '../row.ts';
import { sizeName } from '../size.ts';
import { restoreByTools } from '../tools.ts';

/**
 * The whole also plans, compares, reads the empty kernel and runs two iptables programs, which share one CPU with the test
 * kernel: only what the transaction adds to its messages can be small.
 */
const TIMES = 3;

/** An empty kernel filled: by us, by the same bytes sent again, by the system's tools, in fresh namespaces, in turn. */
export const firstSync: Row = {
  name: 'first-sync',
  async run(out, size) {
    const shape = size.mixed(10_000, 5);
    const events = listedEvents(shape);
    const ours = { all: [] as number[], kernel: [] as number[], transaction: [] as number[] };
    const floor: number[] = [];
    const tools: number[] = [];
    const systemCalls: number[] = [];
    let recording: Recording | undefined;
    for (let run = 1; run <= size.runs; run++) {
      out.progress(`run ${run} of ${size.runs}`);
      await using node = await BenchNode.make();
      const driver = new Driver(node.kernel);
      const before = node.kernel.counters.netlinkSystemCalls;
      ours.all.push(await timed(() => driver.take(events)));
      ours.kernel.push(driver.kernelMs);
      ours.transaction.push(driver.applyMs);
      const ops = driver.takeOps();
      systemCalls.push((node.kernel.counters.netlinkSystemCalls - before) / ops.length);
      await driver.reconciler.stop();
      // The tools, and reading what is there with them, take minutes; what is replayed is the same each time.
      const wanted = run > size.slowRuns ? undefined : await programmed(node);
      if (recording === undefined) {
        await using recorder = await BenchNode.make({ rules: false });
        recording = await record(recorder, ops);
      }
      await using second = await BenchNode.make({ rules: false });
      floor.push(await replay(second, recording));
      if (wanted === undefined) continue;
      await mustHold(second, wanted, 'the replay');
      await using third = await BenchNode.make({ rules: false });
      tools.push(await restoreByTools(third, wanted));
      await mustHold(third, wanted, 'the tools');
    }
    const name = `first sync ${sizeName(shape)}`;
    const overFloor = { unit: 'ms', against: 'floor: raw replay of the netlink messages', baselines: floor };
    const overTools = { unit: 'ms', against: 'ipvsadm -R + ipset restore + ip -batch', baselines: tools };
    const target = ratioAtMost(TIMES, `at most ${TIMES} x the floor`);
    out.add({ name: `${name}: whole, over the floor`, values: ours.all, ...overFloor, target });
    out.add({ name: `${name}: kernel part, over the floor`, values: ours.kernel, ...overFloor });
    const transaction = `${name}: transaction alone, over the floor`;
    const ofTransaction = ratioAtMost(1.3, 'at most 1.3 x the floor');
    out.add({ name: transaction, values: ours.transaction, ...overFloor, guarded: true, target: ofTransaction });
    const few = valueAtMost(0.05, 'at most 0.05');
    out.add({ name: `${name}: netlink system calls for each object`, unit: 'calls', values: systemCalls, target: few });
    out.add({ name: `${name}: whole, over the tools`, values: ours.all, ...overTools, guarded: true });
  },
};
