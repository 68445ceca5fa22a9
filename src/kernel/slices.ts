import { setImmediate } from 'node:timers/promises';

/** Milliseconds of work between two looks at the event loop: health checks answer during the largest dump. */
const SLICE_MS = 8;
/** Items between two looks at the clock. */
const STRIDE = 64;

/** Visits the items in order, and lets the event loop run whenever a slice of time is used up. */
export async function forEachSliced<T>(items: Iterable<T>, visit: (item: T) => void): Promise<void> {
  let count = 0;
  let start = performance.now();
  for (const item of items) {
    visit(item);
    if (++count % STRIDE !== 0 || performance.now() - start < SLICE_MS) continue;
    await setImmediate();
    start = performance.now();
  }
}

/** The items in pieces of at most `size`. */
export function* chunks<T>(items: readonly T[], size: number): Generator<readonly T[], void, undefined> {
  for (let start = 0; start < items.length; start += size) yield items.slice(start, start + size);
}
