import { readFile } from 'node:fs/promises';

/** Memory of a process, in MiB. */
export interface Resident {
  /** RSS: with the pages of files, such as its program, which other processes may share. */
  readonly all: number;
  /** RssAnon: what the process alone has. */
  readonly anonymous: number;
}

export async function residentOf(pid: number): Promise<Resident> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const mib = (field: string): number => {
    const [, kib] = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status) ?? [];
    if (kib === undefined) throw new Error(`process ${pid} has no ${field}`);
    return Number(kib) / 1_024;
  };
  return { all: mib('VmRSS'), anonymous: mib('RssAnon') };
}

/** The resident set of a process, in MiB. */
export async function residentMib(pid: number): Promise<number> {
  return (await residentOf(pid)).all;
}
