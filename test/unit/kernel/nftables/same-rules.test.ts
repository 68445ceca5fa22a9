import { describe, expect, test } from '@jest/globals';
import { sameRules } from '../../../../src/kernel/nftables/port/same-expressions.ts';

const LOOKUP = { name: 'lookup', set: 'service-ips', source: 1 };
const VALUE = { name: 'immediate', destination: 1, data: { value: Uint8Array.of(10, 96, 0, 1) } };

describe('two chains have the same rules', () => {
  test.each([
    ['none', [], []],
    ['the same objects', [[LOOKUP, VALUE]], [[LOOKUP, VALUE]]],
    ['fields in another order', [[LOOKUP]], [[{ source: 1, set: 'service-ips', name: 'lookup' }]]],
    ['an undefined field and none', [[{ ...LOOKUP, destination: undefined }]], [[LOOKUP]]],
    ['none and an undefined field', [[LOOKUP]], [[{ ...LOOKUP, destination: undefined }]]],
    ['flags of 0 and none', [[{ ...LOOKUP, flags: 0 }]], [[LOOKUP]]],
    ['no offset and one of 0', [[LOOKUP]], [[{ ...LOOKUP, offset: 0 }]]],
    ['bytes of another kind', [[VALUE]], [[{ ...VALUE, data: { value: Buffer.from([10, 96, 0, 1]) } }]]],
  ])('with %s', (_what, a, b) => {
    expect(sameRules(a, b)).toBe(true);
    expect(sameRules(b, a)).toBe(true);
  });
});

describe('two chains have other rules', () => {
  test.each([
    ['a rule more', [[LOOKUP]], [[LOOKUP], [LOOKUP]]],
    ['an expression more', [[LOOKUP]], [[LOOKUP, VALUE]]],
    ['the rules in another order', [[LOOKUP], [VALUE]], [[VALUE], [LOOKUP]]],
    ['a field more', [[LOOKUP]], [[{ ...LOOKUP, destination: 0 }]]],
    ['flags', [[LOOKUP]], [[{ ...LOOKUP, flags: 1 }]]],
    ['another set', [[LOOKUP]], [[{ ...LOOKUP, set: 'firewall-ips' }]]],
    ['other bytes', [[VALUE]], [[{ ...VALUE, data: { value: Uint8Array.of(10, 96, 0, 2) } }]]],
    ['fewer bytes', [[VALUE]], [[{ ...VALUE, data: { value: Uint8Array.of(10, 96, 0) } }]]],
    ['a verdict instead of bytes', [[VALUE]], [[{ ...VALUE, data: { verdict: { code: -1 } } }]]],
  ])('with %s', (_what, a, b) => {
    expect(sameRules(a, b)).toBe(false);
    expect(sameRules(b, a)).toBe(false);
  });
});
