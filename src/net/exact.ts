/** The one empty list: what most objects have of most things. */
export const NOTHING: readonly never[] = Object.freeze([]);

/**
 * The same list, for keeping: one that was filled by push(), filter(), flatMap() or a spread has room for sixteen more, which is most
 * of what a small one takes. Empty lists are all one.
 */
export function exact<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? NOTHING : list.slice();
}
