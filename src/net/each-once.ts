/** Sorted; of those that compare as equal, in the order they came: the first that is preferred, else the first. */
export function eachOnce<T>(
  items: readonly T[],
  compare: (a: T, b: T) => number,
  preferred: (item: T) => boolean = nobody,
): readonly T[] {
  // As they stand already, mostly.
  if (items.every((item, at) => at === 0 || compare(items[at - 1] ?? item, item) < 0)) return items;
  const distinct: T[] = [];
  for (const item of items.toSorted(compare)) {
    const last = distinct.at(-1);
    if (last === undefined || compare(last, item) !== 0) distinct.push(item);
    else if (preferred(item) && !preferred(last)) distinct[distinct.length - 1] = item;
  }
  return distinct;
}

function nobody(): boolean {
  return false;
}
