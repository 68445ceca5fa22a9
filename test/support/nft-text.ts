/** Returns what nf_tables has as text, for comparisons: absent fields, zeros and the order of fields do not matter. */
export function nftText(value: unknown): string {
  return JSON.stringify(sorted(value));
}

/** Fields that mean the same when they are 0 and when they are absent. */
const ZERO_IS_ABSENT: ReadonlySet<string> = new Set(['flags', 'offset']);

function sorted(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('latin1');
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).filter(
    ([name, field]) => field !== undefined && !(field === 0 && ZERO_IS_ABSENT.has(name)),
  );
  return Object.fromEntries(fields.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, field]) => [name, sorted(field)]));
}
