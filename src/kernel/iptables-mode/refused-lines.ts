import { KernelError } from '../kernel-error.ts';
import type { Table } from './render/service-port.ts';

/** A line of a script that iptables-restore refused. */
export interface RefusedLine {
  readonly table: Table;
  readonly line: string;
  /** The number of tables of the script that were written before it. */
  readonly written: number;
}

/** "line 3 failed", "line 3: CHAIN_DEL failed (...)", "Error occurred at line: 3" */
const NUMBER = /\bline:? (\d+)\b/g;

/**
 * Returns the lines that an error names. The nft variant names all of them, except what it cannot parse: then both variants name
 * the first one. If the kernel refuses a table, the legacy variant names the line COMMIT.
 */
export function refusedLines(error: unknown, script: string): readonly RefusedLine[] {
  if (!(error instanceof KernelError)) return [];
  const numbers = new Set(Array.from(error.message.matchAll(NUMBER), ([, number]) => Number(number)));
  const found: RefusedLine[] = [];
  if (numbers.size === 0) return found;
  let table: Table = 'filter';
  let written = 0;
  for (const [index, line] of script.split('\n').entries()) {
    if (line.startsWith('*')) table = line === '*nat' ? 'nat' : 'filter';
    if (numbers.has(index + 1)) found.push({ table, line, written });
    if (line === 'COMMIT') written += 1;
  }
  return found;
}
