import { describe, expect, test } from '@jest/globals';
import { formatDuration, parseDuration } from '../../../src/base/duration.ts';

const READ: readonly (readonly [text: string, milliseconds: number, canonical: string])[] = [
  ['0', 0, '0s'],
  ['+0', 0, '0s'],
  ['-0', 0, '0s'],
  ['0s', 0, '0s'],
  ['-0s', 0, '0s'],
  ['30s', 30_000, '30s'],
  ['1m', 60_000, '1m0s'],
  ['90s', 90_000, '1m30s'],
  ['1h', 3_600_000, '1h0m0s'],
  ['24h0m0s', 86_400_000, '24h0m0s'],
  ['15m0s', 900_000, '15m0s'],
  ['1h2m3s', 3_723_000, '1h2m3s'],
  ['1.5h', 5_400_000, '1h30m0s'],
  ['1h30m', 5_400_000, '1h30m0s'],
  ['-1.5s', -1500, '-1.5s'],
  ['+5m', 300_000, '5m0s'],
  ['250ms', 250, '250ms'],
  ['1.5ms', 1.5, '1.5ms'],
  ['100us', 0.1, '100\u00b5s'],
  ['100\u00b5s', 0.1, '100\u00b5s'],
  ['100\u03bcs', 0.1, '100\u00b5s'],
  ['1ns', 0.000001, '1ns'],
  ['1500ns', 0.0015, '1.5\u00b5s'],
  ['.5s', 500, '500ms'],
  ['1.s', 1000, '1s'],
  ['3s4ms', 3004, '3.004s'],
  ['1m1m', 120_000, '2m0s'],
  ['1s1h', 3_601_000, '1h0m1s'],
  ['0.1s', 100, '100ms'],
  ['0.100000000000000000000h', 360_000, '6m0s'],
  ['39h9m14.425s', 140_954_425, '39h9m14.425s'],
];

describe('durations as Go writes them', () => {
  test.each(READ)('%s', (text, milliseconds, canonical) => {
    const value = parseDuration(text);
    expect(value).toBe(milliseconds);
    expect(formatDuration(milliseconds)).toBe(canonical);
    expect(parseDuration(canonical)).toBe(milliseconds);
  });

  test.each([
    '',
    '-',
    '+',
    '3',
    '-5',
    '1',
    's',
    '.s',
    '+.s',
    '-.',
    '.',
    '3000000h',
    '9223372036854775808ns',
    '1d',
    '1 s',
    ' 1s',
    '1s ',
    '1h30',
    's1',
    '1S',
    '--1s',
    '1e3s',
    '1,5s',
    '0x1s',
    'NaN',
    '\u0661s',
  ])('%j is none', (text) => {
    expect(parseDuration(text)).toBeUndefined();
  });

  test('the longest duration that Go can represent is accepted', () => {
    expect(parseDuration('9223372036854775807ns')).toBeCloseTo(9_223_372_036_854.775, 2);
  });
});
