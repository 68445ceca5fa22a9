/** Rows that a daemon lists at most. */
export const MOST_ROWS = 5_000;

/** Returns a number of a reply. Throws if it is something else. */
export function checkedNumber(name: string, value: unknown): number {
  if (typeof value === 'number') return value;
  throw new Error(`${name} is no number in its reply`);
}

/** Returns a text of a reply. Throws if it is something else. */
export function checkedText(name: string, value: unknown): string {
  if (typeof value === 'string') return value;
  throw new Error(`${name} is no text in its reply`);
}

/** Returns the rows of a reply, which still have to be checked. Throws if there are none, or more than a daemon lists. */
export function checkedRows<T>(rows: readonly T[] | undefined): readonly T[] {
  if (!Array.isArray(rows)) throw new Error('its reply has no rows');
  if (rows.length > MOST_ROWS) throw new Error(`its reply has more than ${MOST_ROWS} rows`);
  return rows as readonly T[];
}
