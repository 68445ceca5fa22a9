import { BenchNode, Driver } from '../bench-node.ts';
import { listedEvents } from '../large-cluster.ts';
import { ratioAtMost, timed } from '../measure.ts';
import { NetnsShell } from '../netns-shell.ts';
import { hasNfTables, listRuleset, mustHoldTables, readTables } from '../nf-tables.ts';
import { type NftRecording, recordTransactions, replayTransactions } from '../nft-floor.ts';
import type { Row } from '../row.ts';
import { sizeName } from '../size.ts';
import { executeByNft } from '../tools.ts';

const mode = 'nftables';

/** Empty tables filled: by us, by the same bytes sent again, by nft, in fresh namespaces, in turn. */
export const nftablesFirstSync: Row = {
  name: 'nftables-first-sync',
  async run(out, size) {
    if (!(await hasNfTables(out))) return;
    const shape = size.mixed(10_000, 5);
    const events = listedEvents(shape);
    const ours = { all: [] as number[], kernel: [] as number[], transaction: [] as number[] };
    const floor: number[] = [];
    const tool: number[] = [];
    let recording: NftRecording | undefined;
    let ruleset: string | undefined;
    for (let run = 1; run <= size.runs; run++) {
      out.progress(`run ${run} of ${size.runs}`);
      await using node = await BenchNode.make({ mode });
      const driver = new Driver(node.kernel);
      ours.all.push(await timed(() => driver.take(events)));
      ours.kernel.push(driver.kernelMs);
      ours.transaction.push(driver.applyMs);
      await driver.reconciler.stop();
      const wanted = await readTables(node);
      // Listing the tables with nft takes longer than all the rest, and what they hold is the same each time.
      ruleset ??= await listRuleset(node);
      if (recording === undefined) {
        await using recorder = await BenchNode.make({ mode });
        recording = await recordTransactions(recorder, events);
      }
      await using second = await BenchNode.make({ mode });
      floor.push(await replayTransactions(second, recording));
      await mustHoldTables(second, wanted, 'the replay');
      await using third = await BenchNode.make({ mode });
      await using shell = new NetnsShell(third.path);
      tool.push(await executeByNft(shell, `flush ruleset\n${ruleset}`));
      await mustHoldTables(third, wanted, 'nft');
    }
    const name = `first sync ${sizeName(shape)} in nftables mode`;
    const overFloor = { unit: 'ms', against: 'floor: raw replay of the transactions', baselines: floor };
    const target = ratioAtMost(1.5, 'at most 1.5 x the floor');
    out.add({ name: `${name}: whole, over the floor`, values: ours.all, ...overFloor, target });
    out.add({ name: `${name}: kernel part, over the floor`, values: ours.kernel, ...overFloor });
    out.add({ name: `${name}: transaction alone, over the floor`, values: ours.transaction, ...overFloor });
    out.add({
      name: `${name}: whole, over nft`,
      unit: 'ms',
      values: ours.all,
      against: 'nft -f of the same rule set',
      baselines: tool,
      target: ratioAtMost(1 / 20, 'at least 20 times faster'),
    });
  },
};
