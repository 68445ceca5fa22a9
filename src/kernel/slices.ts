import { setImmediate } from 'node:timers/promises';
import { Pace } from '../net/pace.ts';

/** Milliseconds of work between two turns of the event loop: health checks answer during the largest dump. */
const SLICE_MS = 8;

/** Visits the items in order, and lets the event loop turn whenever a slice of time is used up. */
export async function forEachSliced<T>(items: Iterable<T>, visit: (item: T) => void): Promise<void> {
  const pace = new Pace(SLICE_MS);
  for (const item of items) {
    visit(item);
    if (!pace.due) continue;
    await setImmediate();
    pace.renew();
  }
}

/** The items in pieces of at most `size`. */
export function* chunks<T>(items: readonly T[], size: number): Generator<readonly T[], void, undefined> {
  for (let start = 0; start < items.length; start += size) yield items.slice(start, start + size);
}

/** The items cut wherever `kindOf` answers something else than for the one before. */
export function* runs<T>(items: readonly T[], kindOf: (item: T) => unknown): Generator<readonly T[], void, undefined> {
  let start = 0;
  for (let end = 1; end <= items.length; end++) {
    if (end < items.length && kindOf(items[end] as T) === kindOf(items[start] as T)) continue;
    // Mostly there is but one: no reason to copy a hundred thousand.
    yield start === 0 && end === items.length ? items : items.slice(start, end);
    start = end;
  }
}
