import { afterEach, expect, jest, test } from '@jest/globals';
import { wallNow } from '../../../src/base/wall-clock.ts';

afterEach(() => {
  jest.restoreAllMocks();
});

test('wallNow follows every step of the wall clock, with fractions in between', () => {
  const date = jest.spyOn(Date, 'now');
  const monotonic = jest.spyOn(performance, 'now');
  const at = (wall: number, sinceStart: number): number => {
    date.mockReturnValue(wall);
    monotonic.mockReturnValue(sinceStart);
    return wallNow();
  };
  expect(at(1_000_000, 50)).toBe(1_000_000);
  expect(at(1_000_000, 50.25)).toBe(1_000_000.25);
  expect(at(1_000_007, 57.5)).toBe(1_000_007.5);
  // Set back by 900 s, then forward.
  expect(at(100_008, 58)).toBe(100_008);
  expect(at(100_008, 58.5)).toBe(100_008.5);
  expect(at(9_000_000, 59)).toBe(9_000_000);
});
