import { describe, expect, test } from '@jest/globals';
import { median, percentile, ratioAtMost, valueAtMost } from '../../bench/measure.ts';
import { makeSize } from '../../bench/size.ts';

const MEASURED = {
  row: 'row',
  name: 'name',
  value: 10,
  p99: 12,
  unit: 'ms',
  baseline: null,
  baselineP99: null,
  against: null,
  ratio: null,
  n: 1,
  kernel: 'uml',
  cpus: 1,
  node: 'v24',
  date: '2026-11-21',
};

describe('measures', () => {
  test('a measure has the median in the middle and p99 at the nearest rank', () => {
    expect(median([5, 1, 3])).toBe(3);
    expect(median([4, 1, 3, 2])).toBe(2.5);
    const hundred = Array.from({ length: 100 }, (_, index) => index + 1);
    expect(percentile(hundred, 99)).toBe(99);
    expect(percentile([3, 9, 4], 99)).toBe(9);
    expect(() => median([])).toThrow('no values');
    expect(() => percentile([], 99)).toThrow('no values');
  });

  test('a target without a ratio is not reached', () => {
    expect(ratioAtMost(1.3, '').reached(MEASURED)).toBe(false);
    expect(ratioAtMost(1.3, '').reached({ ...MEASURED, ratio: 1.3 })).toBe(true);
    expect(ratioAtMost(1.3, '').reached({ ...MEASURED, ratio: 1.31 })).toBe(false);
    expect(valueAtMost(10, '').reached(MEASURED)).toBe(true);
    expect(valueAtMost(9, '').reached(MEASURED)).toBe(false);
  });

  test('one number of Services scales all others', () => {
    const full = makeSize({ quick: false });
    expect([full.services(10_000), full.services(50_000), full.runs]).toEqual([10_000, 50_000, 10]);
    const small = makeSize({ quick: true, services: 200, runs: 2 });
    expect([small.services(10_000), small.services(50_000), small.runs]).toEqual([200, 1_000, 2]);
    expect(small.mixed(50_000, 5)).toMatchObject({ services: 1_000, endpoints: 5 });
  });
});
