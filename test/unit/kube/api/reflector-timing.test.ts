import { expect, test } from '@jest/globals';
import { backoffDelay, DEFAULT_TIMING } from '../../../../src/kube/api/reflector-timing.ts';

function delay(failures: number, chance: number, backoff = DEFAULT_TIMING.backoff): number {
  return backoffDelay(failures, { ...DEFAULT_TIMING, backoff, random: () => chance });
}

test('the ceiling doubles up to the most, chance chooses below it', () => {
  const ceilings = [1, 2, 3, 6, 7, 1000].map((failures) => delay(failures, 1));
  expect(ceilings).toEqual([800, 1600, 3200, 25_600, 30_000, 30_000]);
  expect(delay(5, 0)).toBe(100);
  expect(delay(5, 0.5)).toBe(6450);
});

test('never zero, and never above the most', () => {
  expect(delay(1, 0, { firstMs: 800, maxMs: 50 })).toBe(50);
});

test('what the server demands of all comes before the random part', () => {
  const timing = { ...DEFAULT_TIMING, random: () => 0.5 };
  expect(backoffDelay(2, timing, 10_000)).toBe(10_000 + backoffDelay(2, timing));
});

/** A small generator, so that each run has the same numbers (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** When, in milliseconds, each of these watches has been resumed, if the server is away from 0 to `awayMs`. */
function resumedAfter(watches: number, awayMs: number): number[] {
  const timing = { ...DEFAULT_TIMING, random: randomOf(1) };
  return Array.from({ length: watches }, () => {
    let at = 0;
    for (let failures = 1; ; failures++) {
      at += backoffDelay(failures, timing);
      if (at >= awayMs) return at;
    }
  });
}

function busiestSecond(times: readonly number[]): number {
  const counts = [...Map.groupBy(times, (at) => Math.floor(at / 1_000)).values()].map((group) => group.length);
  return Math.max(...counts);
}

test.each([10_000, 60_000, 600_000])(
  '15,000 watches, of 5,000 nodes, return one after the other after %d ms',
  (awayMs) => {
    const times = resumedAfter(15_000, awayMs);
    expect(busiestSecond(times)).toBeLessThan(15_000 * 0.2);
    expect(Math.max(...times)).toBeLessThanOrEqual(awayMs + DEFAULT_TIMING.backoff.maxMs);
  },
);
