/** Divides items, in their order, into parts whose sizes add up to at most `most`. A larger item is a part of its own. */
export function* boundedParts<T>(
  items: Iterable<T>,
  sizeOf: (item: T) => number,
  most: number,
): Generator<T[], void, undefined> {
  let part: T[] = [];
  let size = 0;
  for (const item of items) {
    const more = sizeOf(item);
    if (part.length > 0 && size + more > most) {
      yield part;
      part = [];
      size = 0;
    }
    part.push(item);
    size += more;
  }
  if (part.length > 0) yield part;
}
