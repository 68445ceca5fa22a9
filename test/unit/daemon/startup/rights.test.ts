import { expect, test } from '@jest/globals';
import { missingRight } from '../../../../src/daemon/startup/rights.ts';

const ADMIN = 0x1000n;
const RAW = 0x2000n;

function status(capabilities: bigint): string {
  return `Name:\tnode\nCapPrm:\t000001ffffffffff\nCapEff:\t${capabilities.toString(16).padStart(16, '0')}\nCapBnd:\t000001ffffffffff\n`;
}

test.each([
  ['all', 0x1ff_ffff_ffffn, true, /^nothing$/],
  ['both', ADMIN | RAW, true, /^nothing$/],
  ['NET_ADMIN alone, no rules to write', ADMIN, false, /^nothing$/],
  ['NET_ADMIN alone', ADMIN, true, /CAP_NET_RAW .*\[NET_ADMIN, NET_RAW\]/],
  ['NET_RAW alone', RAW, true, /CAP_NET_ADMIN/],
  ['none', 0n, false, /CAP_NET_ADMIN/],
])('%s', (_name, capabilities, rules, missing) => {
  expect(missingRight(status(capabilities), rules) ?? 'nothing').toMatch(missing);
});

test('if the rights of the process are unknown, the start is not refused', () => {
  expect(missingRight('Name:\tnode\n', true)).toBeUndefined();
});
