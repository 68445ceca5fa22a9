// Writes lab/results/e2e.md and lab/results/trials.md again from the JSON files beside them, after a change of reasons.ts or page.ts.
import { publishTrials, readTrials } from '../trial/files.ts';
import { publish, readKept } from './files.ts';

publishTrials(readTrials());
const { unexplained } = publish(readKept());
for (const line of unexplained) process.stdout.write(`no reason in lab/cluster/e2e/reasons.ts: ${line}\n`);
if (unexplained.length > 0) process.exitCode = 1;
