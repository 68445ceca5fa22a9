import { readFile } from 'node:fs/promises';

/** Of Linux on x86-64, and of User-Mode Linux: USER_HZ. */
const TICK_MS = 10;

/** The processor time that a process has used, with that of its ended children, in milliseconds. */
export async function processorMs(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  // proc(5): after the name, which may contain spaces, state is the third field, and utime, stime, cutime and cstime are 14 to 17.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * TICK_MS;
}
