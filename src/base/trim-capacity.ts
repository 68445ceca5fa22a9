/** A shared empty list. It saves memory, because most lists of most objects are empty. */
export const EMPTY: readonly never[] = Object.freeze([]);

/**
 * Returns a copy without spare capacity, or EMPTY for an empty list. Use it for lists that are kept in memory: push(),
 * filter(), flatMap() and spreads allocate room for sixteen more items.
 */
export function trimCapacity<T>(list: readonly T[]): readonly T[] {
  return list.length === 0 ? EMPTY : list.slice();
}
