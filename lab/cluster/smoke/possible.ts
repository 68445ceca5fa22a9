// Prints `yes` if this machine can build a cluster, else `no: REASON`.
import { goMissing } from '../go.ts';

const why = process.arch === 'x64' ? await goMissing() : 'the nodes of a cluster need an x86-64 machine';
process.stdout.write(why === undefined ? 'yes\n' : `no: ${why}\n`);
