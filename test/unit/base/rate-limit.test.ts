import { expect, test } from '@jest/globals';
import { RateLimit } from '../../../src/base/rate-limit.ts';

test('a burst is sent immediately, further requests at the configured rate', () => {
  const limit = new RateLimit({ qps: 5, burst: 3 }, 0);
  expect([0, 0, 0, 0, 0].map((now) => limit.take(now))).toEqual([0, 0, 0, 200, 400]);
  // At 600 ms three more have come, and two were promised.
  expect(limit.take(600)).toBe(0);
  expect(limit.take(600)).toBeCloseTo(200);
});

test('a pause saves up one burst and no more', () => {
  const limit = new RateLimit({ qps: 5, burst: 2 }, 0);
  limit.take(0);
  limit.take(0);
  expect([1, 2, 3].map(() => limit.take(3_600_000))).toEqual([0, 0, 200]);
});

test('an unused token can be returned', () => {
  const limit = new RateLimit({ qps: 1, burst: 1 }, 0);
  expect([limit.take(0), limit.take(0)]).toEqual([0, 1_000]);
  limit.giveBack();
  expect(limit.take(0)).toBe(1_000);
});

test('a negative rate is no limit; a burst of 0 still lets one through', () => {
  const free = new RateLimit({ qps: -1, burst: 0 }, 0);
  expect(Array.from({ length: 100 }, () => free.take(0)).every((wait) => wait === 0)).toBe(true);
  const narrow = new RateLimit({ qps: 10, burst: 0 }, 0);
  expect([narrow.take(0), narrow.take(0)]).toEqual([0, 100]);
});
