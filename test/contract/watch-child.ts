// Started inside a namespace: prepares the kernel, watches it, and says a line for each report until it is ended.
import { createIpvsKernel } from '../../src/kernel/ipvs/ipvs-kernel.ts';
import { QuietLog } from './quiet-log.ts';

const log = new QuietLog();
const kernel = createIpvsKernel({ log });
try {
  await kernel.prepare();
  kernel.watchNode(
    () => process.stdout.write('changed\n'),
    (reason) => process.stdout.write(`lost: ${reason}\n`),
  );
  process.stdout.write('watching\n');
  // The watch itself keeps no process alive.
  setInterval(() => undefined, 60_000);
} catch (error) {
  process.stdout.write(`${error instanceof Error ? `${error.name} ${error.message}` : String(error)}\n`);
  await kernel.close();
}
