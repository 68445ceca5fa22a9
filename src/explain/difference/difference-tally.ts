import type { KnownDifference } from '../../state/rules/known-difference.ts';
import type { PlannedOperation, ShadowText } from '../replies.ts';

/** A number of differences; `known` as in PlannedOperation. */
export interface DifferenceCount {
  readonly operation: string;
  readonly known: KnownDifference | undefined;
  readonly count: number;
}

export function differenceCounts(operations: readonly PlannedOperation[]): DifferenceCount[] {
  const groups = Map.groupBy(operations, ({ do: operation, known = '' }) => `${operation} ${known}`);
  return Array.from(groups.values()).flatMap((group) =>
    group.slice(0, 1).map(({ do: operation, known }) => ({ operation, known, count: group.length })),
  );
}

/** Counts the unexpected differences, and the known ones by their short names. `more` of them were not looked at. */
export function shadowText(operations: readonly PlannedOperation[], more: number): ShadowText {
  const known: Partial<Record<KnownDifference, number>> = {};
  for (const { known: name } of operations) if (name !== undefined) known[name] = (known[name] ?? 0) + 1;
  return { unexpected: more + operations.filter(({ known: name }) => name === undefined).length, known };
}

/** Returns for example "3 unexpected differences, and 2 known ones (rule-text 2)". */
export function shadowWords({ unexpected, known }: ShadowText): string {
  const names = Object.entries(known).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const sum = names.reduce((total, [, count]) => total + count, 0);
  const differences = `${unexpected === 0 ? 'no' : unexpected} unexpected ${unexpected === 1 ? 'difference' : 'differences'}`;
  if (sum === 0) return differences;
  return `${differences}, and ${sum} known ${sum === 1 ? 'one' : 'ones'} (${names.map((each) => each.join(' ')).join(', ')})`;
}
