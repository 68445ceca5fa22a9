import { access, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { constants } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** Everything that a service proxy might start. */
const PROGRAMS = [
  ...['iptables', 'ip6tables'].flatMap((base) =>
    ['', '-legacy', '-nft'].flatMap((variant) => ['', '-save', '-restore'].map((verb) => `${base}${variant}${verb}`)),
  ),
  'ipset',
  'ipvsadm',
  'ip',
  'conntrack',
  'sysctl',
  'modprobe',
];

/**
 * How often each program is started while `run` runs, by any process: programs of the same names come first in PATH,
 * write
 * themselves down and become the real one.
 */
export async function countProcesses(run: () => Promise<unknown>): Promise<ReadonlyMap<string, number>> {
  const folder = await mkdtemp(path.join(tmpdir(), 'counted-'));
  const list = path.join(folder, 'started');
  const { PATH = '' } = process.env;
  await writeFile(list, '');
  for (const name of PROGRAMS) {
    const real = await find(name, `${PATH}:/usr/sbin:/sbin`);
    if (real === undefined) continue;
    const script = `#!/bin/sh\necho ${name} >>${list}\nexec ${real} "$@"\n`;
    await writeFile(path.join(folder, name), script, { mode: 0o755 });
  }
  process.env['PATH'] = `${folder}:${PATH}`;
  try {
    await run();
  } finally {
    process.env['PATH'] = PATH;
  }
  const counts = new Map<string, number>();
  for (const name of (await readFile(list, 'utf8')).split('\n').filter((line) => line !== '')) {
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  await rm(folder, { recursive: true });
  return counts;
}

async function find(name: string, folders: string): Promise<string | undefined> {
  for (const folder of folders.split(':')) {
    const candidate = path.join(folder, name);
    try {
      await access(candidate, constants.X_OK);
      return candidate;
    } catch {
      // Not here.
    }
  }
  return undefined;
}
