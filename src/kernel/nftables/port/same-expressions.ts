/** Fields that mean the same when they are 0 and when they are absent. */
const ZERO_IS_ABSENT: ReadonlySet<string> = new Set(['flags', 'offset']);

/** The expressions of a rule, as written or as read. */
type Expressions = readonly object[];

/** Whether two chains have the same rules. A chain of a large Service has thousands, so nothing is built to compare them. */
export function sameRules(a: readonly Expressions[], b: readonly Expressions[]): boolean {
  return sameItems(a, b);
}

function sameItems(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((item, index) => sameValue(item, b[index]));
}

function sameValue(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (a instanceof Uint8Array) return b instanceof Uint8Array && Buffer.compare(a, b) === 0;
  if (Array.isArray(a)) return Array.isArray(b) && sameItems(a, b);
  return sameFields(a, b);
}

function sameFields(a: object, b: object): boolean {
  for (const name in a) if (!sameField(name, fieldOf(a, name), fieldOf(b, name))) return false;
  for (const name in b) if (!(name in a) && !sameField(name, undefined, fieldOf(b, name))) return false;
  return true;
}

function sameField(name: string, a: unknown, b: unknown): boolean {
  return sameValue(a, b) || (ZERO_IS_ABSENT.has(name) && (a ?? 0) === (b ?? 0));
}

function fieldOf(object: object, name: string): unknown {
  return (object as Readonly<Record<string, unknown>>)[name];
}
