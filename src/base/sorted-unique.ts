/** Returns the items sorted and unique. Of equal items, it keeps the first preferred one, or else the first one. */
export function sortedUnique<T>(
  items: readonly T[],
  compare: (a: T, b: T) => number,
  preferred: (item: T) => boolean = () => false,
): readonly T[] {
  // Usually the items are already sorted and unique.
  if (items.every((item, at) => at === 0 || compare(items[at - 1] ?? item, item) < 0)) return items;
  const distinct: T[] = [];
  for (const item of items.toSorted(compare)) {
    const last = distinct.at(-1);
    if (last === undefined || compare(last, item) !== 0) distinct.push(item);
    else if (preferred(item) && !preferred(last)) distinct[distinct.length - 1] = item;
  }
  return distinct;
}
