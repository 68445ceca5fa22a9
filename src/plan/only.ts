/** The items that pass, in their order: the same list when that is all of them, as it almost always is. */
export function only<T>(items: readonly T[], passes: (item: T) => boolean): readonly T[] {
  return items.every(passes) ? items : items.filter(passes);
}
