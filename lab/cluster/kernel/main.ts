// main.ts CACHE: prints the folder of the nodes' kernel, which is built first if CACHE lacks it. For lab/kernel/run.sh.
import { ensureKernel } from './ensure.ts';

const [cache = ''] = process.argv.slice(2);
try {
  const folder = await ensureKernel(cache, (line) => process.stderr.write(`test kernel: ${line}\n`));
  process.stdout.write(`${folder}\n`);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
