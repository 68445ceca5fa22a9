import { describe, expect, test } from '@jest/globals';
import { parseTime } from '../../../src/model/trigger-time.ts';

describe('RFC 3339 times', () => {
  test.each([
    ['1970-01-01T00:00:01Z', 1000],
    ['2024-05-06T07:08:09Z', 1_714_979_289_000],
    ['2024-05-06T07:08:09.5Z', 1_714_979_289_500],
    ['2024-05-06T09:08:09+02:00', 1_714_979_289_000],
    ['2024-05-05T23:38:09-07:30', 1_714_979_289_000],
  ])('%s', (text, time) => {
    expect(parseTime(text)).toBe(time);
  });

  test('trigger times keep nanoseconds as far as a number can represent them', () => {
    expect(parseTime('2024-05-06T07:08:09.123456789Z')).toBeCloseTo(1_714_979_289_123.457, 2);
  });

  test.each([
    '',
    'yesterday',
    '2024-05-06',
    '2024-13-06T07:08:09Z',
    '2024-05-06T07:08:09',
    '2024-05-06 07:08:09Z',
    '1',
  ])('%p is none', (text) => {
    expect(parseTime(text)).toBeUndefined();
  });
});
