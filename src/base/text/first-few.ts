/** Maximum number of objects that a log line names. */
export const MAX_NAMED = 10;

/** Returns the first ten texts, followed by the number of remaining ones. `total` counts texts that are not given. */
export function firstFew(texts: readonly string[], total = texts.length): string[] {
  const named = texts.slice(0, MAX_NAMED);
  return total > named.length ? [...named, `and ${total - named.length} more`] : named;
}
