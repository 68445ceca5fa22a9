// node --import: a probe of the event loop in a program that knows nothing of it. On each SIGUSR2 one line is written to stderr.
import { LoopProbe } from './loop-probe.ts';

const probe = new LoopProbe();
probe.start();
process.on('SIGUSR2', () => process.stderr.write(`event loop held ${JSON.stringify(probe.take())}\n`));
