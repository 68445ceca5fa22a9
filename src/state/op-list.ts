import { type Op, type OpKind, formatOp } from './op.ts';

/** Maximum number of operations listed in a log line. */
const NAMED = 10;

/** Returns the number of operations of each kind, for example ["2 x delete-virtual-server"]. */
export function countsInWords(ops: readonly Op[]): string[] {
  const counts = new Map<OpKind, number>();
  for (const { kind } of ops) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return Array.from(counts, ([kind, count]) => `${count} x ${kind}`);
}

/** Returns the first ten operations as text, followed by the number of remaining operations. */
export function firstInWords(ops: readonly Op[]): string[] {
  const named = ops.slice(0, NAMED).map(formatOp);
  return ops.length > NAMED ? [...named, `and ${ops.length - NAMED} more`] : named;
}
