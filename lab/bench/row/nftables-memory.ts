import { setTimeout as sleep } from 'node:timers/promises';
import type { BenchMode } from '../bench-node.ts';
import { DaemonNode } from '../daemon-process.ts';
import type { ClusterShape } from '../large-cluster.ts';
import { ratioAtMost } from '../measure.ts';
import { hasNfTables } from '../nf-tables.ts';
import { residentMib } from '../resident.ts';
import type { Row } from '../row.ts';
import { sizeName } from '../size.ts';

/** After the first sync: what it used alone is given back by then. */
const REST_MS = 5_000;

/** Resident set of the bundled daemon in either mode, in turn. */
export const nftablesMemory: Row = {
  name: 'nftables-memory',
  async run(out, size) {
    if (!(await hasNfTables(out))) return;
    const shape = size.mixed(10_000, 10);
    const nftables: number[] = [];
    const ipvs: number[] = [];
    for (let run = 1; run <= size.slowRuns; run++) {
      out.progress(`run ${run} of ${size.slowRuns}`);
      nftables.push(await residentAt(shape, 'nftables'));
      ipvs.push(await residentAt(shape, 'ipvs'));
    }
    out.add({
      name: `RSS of the daemon in nftables mode at ${sizeName(shape)}`,
      unit: 'MiB',
      values: nftables,
      against: 'the daemon in ipvs mode',
      baselines: ipvs,
      target: ratioAtMost(1.2, 'at most 20% more'),
    });
  },
};

async function residentAt(shape: ClusterShape, mode: BenchMode): Promise<number> {
  await using node = await DaemonNode.make(shape, mode);
  const started = await node.start();
  await started.firstSync();
  await sleep(REST_MS);
  return await residentMib(started.process.pid);
}
