// Writes docs/e2e.md again from docs/e2e.json, after a change of reasons.ts or page.ts.
import { publish, readKept } from './files.ts';

const { unexplained } = publish(readKept());
for (const line of unexplained) process.stdout.write(`no reason in test/cluster/e2e/reasons.ts: ${line}\n`);
if (unexplained.length > 0) process.exitCode = 1;
