import { Yielder } from '../../base/yielder.ts';

/** Visits the items in order, and yields to the event loop: health checks must respond even during the largest dump. */
export async function forEachSliced<T>(items: Iterable<T>, visit: (item: T) => void): Promise<void> {
  const yielder = new Yielder();
  for (const item of items) {
    visit(item);
    if (yielder.due) await yielder.yieldIfDue();
  }
}

/** Yields the items in batches of at most `size`. */
export function* chunks<T>(items: readonly T[], size: number): Generator<readonly T[], void, undefined> {
  for (let start = 0; start < items.length; start += size) yield items.slice(start, start + size);
}
