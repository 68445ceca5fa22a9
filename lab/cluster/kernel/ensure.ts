import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { runCommand } from '../../../test/bed/command.ts';
import type { Say } from '../cluster.ts';
import { exists } from '../packages.ts';

const BUILD_TIMEOUT_MS = 3_600_000;

/**
 * Returns the folder of the nodes' kernel, which build.sh builds if `cache` lacks it. The folder is named after what
 * the kernel is made from.
 */
export async function ensureKernel(cache: string, say: Say): Promise<string> {
  const build = path.join(import.meta.dirname, 'build.sh');
  const { stdout: source } = await runCommand(['dpkg-query', '--show', 'linux-source-6.1', 'user-mode-linux']);
  const hash = createHash('sha256').update(source);
  for (const file of [build, path.join(import.meta.dirname, 'options')]) hash.update(await readFile(file));
  const folder = path.join(cache, 'node-kernel', hash.digest('hex').slice(0, 16));
  if (await exists(folder)) return folder;
  say(`building the kernel of the nodes, once for all checkouts, in ${folder}; the log is ${folder}.log`);
  const before = performance.now();
  await runCommand([build, folder], { timeoutMs: BUILD_TIMEOUT_MS });
  say(`the kernel of the nodes: built in ${Math.round((performance.now() - before) / 1000)} s`);
  return folder;
}
