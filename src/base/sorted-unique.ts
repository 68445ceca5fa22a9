/**
 * Returns the items sorted and unique. Of equal items, it keeps the first one with the highest rank.
 *
 * @param rankOf by default, all items have the same rank
 */
export function sortedUnique<T>(
  items: readonly T[],
  compare: (a: T, b: T) => number,
  rankOf: (item: T) => number = () => 0,
): readonly T[] {
  // Usually the items are already sorted and unique.
  if (items.every((item, at) => at === 0 || compare(items[at - 1] ?? item, item) < 0)) return items;
  const distinct: T[] = [];
  for (const item of items.toSorted(compare)) {
    const last = distinct.at(-1);
    if (last === undefined || compare(last, item) !== 0) distinct.push(item);
    else if (rankOf(item) > rankOf(last)) distinct[distinct.length - 1] = item;
  }
  return distinct;
}
