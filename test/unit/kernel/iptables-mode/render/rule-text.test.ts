import { describe, expect, test } from '@jest/globals';
import { oneIn } from '../../../../../src/kernel/iptables-mode/render/rule-text.ts';

describe('the probability of one in so many packets', () => {
  // As iptables-save prints them.
  test.each([
    [2, '0.50000000000'],
    [3, '0.33333333349'],
    [7, '0.14285714272'],
    [4095, '0.00024420023'],
    // Exactly halfway between two numbers of 11 decimals.
    [4096, '0.00024414062'],
    [4097, '0.00024408102'],
    [20_000, '0.00004999992'],
  ])('%i', (count, probability) => {
    expect(oneIn(count)).toBe(`-m statistic --mode random --probability ${probability}`);
  });
});
