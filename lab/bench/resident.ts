import { readFile } from 'node:fs/promises';

/** The resident set of a process, in MiB. */
export async function residentMib(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(status) ?? [];
  if (kib === undefined) throw new Error(`process ${pid} has no resident set`);
  return Number(kib) / 1_024;
}
