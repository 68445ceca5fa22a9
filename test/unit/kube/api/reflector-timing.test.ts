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
