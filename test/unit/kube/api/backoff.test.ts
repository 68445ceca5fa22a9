import { expect, test } from '@jest/globals';
import { backoffDelay, DEFAULT_BACKOFF } from '../../../../src/kube/api/backoff.ts';

test('the ceiling doubles up to the most, chance chooses below it', () => {
  const ceilings = [1, 2, 3, 6, 7, 1000].map((failures) => backoffDelay(failures, DEFAULT_BACKOFF, 1));
  expect(ceilings).toEqual([800, 1600, 3200, 25_600, 30_000, 30_000]);
  expect(backoffDelay(5, DEFAULT_BACKOFF, 0)).toBe(100);
  expect(backoffDelay(5, DEFAULT_BACKOFF, 0.5)).toBe(6450);
});

test('never zero, and never above the most', () => {
  expect(backoffDelay(1, { firstMs: 800, maxMs: 50 }, 0)).toBe(50);
});
