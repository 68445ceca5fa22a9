/** Like filter(), but returns the original list if all items pass, which is the usual case. */
export function filterUnchanged<T>(
  items: readonly T[],
  passes: (item: T, at: number, items: readonly T[]) => boolean,
): readonly T[] {
  return items.every(passes) ? items : items.filter(passes);
}
