import type { CountersReply } from '../explain/replies.ts';
import { COUNTERS } from '../state/server-stats.ts';
import { aligned } from './output.ts';
import { short } from './short-number.ts';

const HEADS = ['connections', 'pkt in', 'out', 'bytes in', 'out'];
/** The longest number. */
const LEAST_COLUMNS = 5;

/** Returns the counters as a table; nothing if all are zero. */
export function counterLines(counters: readonly CountersReply[]): string[] {
  const rows = counters.map((each) => ({ at: each.at, values: COUNTERS.map((counter) => each[counter]) }));
  if (rows.every(({ values }) => values.every((value) => value === 0))) return [];
  return aligned([
    ['counters', toTheRight(HEADS)],
    ...rows.map(({ at, values }) => [at, toTheRight(values.map(short))]),
  ]);
}

function toTheRight(cells: readonly string[]): string {
  return cells.map((cell, at) => cell.padStart(Math.max(LEAST_COLUMNS, HEADS[at]?.length ?? 0))).join('  ');
}
