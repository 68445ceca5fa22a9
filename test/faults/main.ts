// node main.ts: random faults on the kernel, in a network namespace used only by this process. Options: see play.ts.
import { LinuxFaultBed } from './linux-fault-bed.ts';
import { play, wishes } from './play.ts';
import { HistoryRun } from './run-history.ts';

const wanted = wishes(60);
const startedAt = performance.now();
process.stderr.write(`random faults: seed ${wanted.seed}, ${wanted.histories} histories\n`);
await using bed = await LinuxFaultBed.make();
await play(wanted, async (history, number) => {
  bed.begin(number);
  await HistoryRun.check(bed, history, number);
  if (number % 50 === 0) process.stderr.write(`random faults: ${number} histories of seed ${wanted.seed} so far\n`);
});
const seconds = Math.round((performance.now() - startedAt) / 1000);
process.stderr.write(`random faults: ${wanted.histories} histories of seed ${wanted.seed} held, in ${seconds} s\n`);
