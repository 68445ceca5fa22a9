import { expect, test } from '@jest/globals';
import { missingRight } from '../../../../src/daemon/startup/rights.ts';

const ADMIN = 0x1000n;
const RAW = 0x2000n;
const SYS_ADMIN = 0x20_0000n;

function status(capabilities: bigint): string {
  return `Name:\tnode\nCapPrm:\t000001ffffffffff\nCapEff:\t${capabilities.toString(16).padStart(16, '0')}\nCapBnd:\t000001ffffffffff\n`;
}

test.each([
  ['all', 0x1ff_ffff_ffffn, { rules: true, podNamespaces: true }, /^nothing$/],
  ['both', ADMIN | RAW, { rules: true }, /^nothing$/],
  ['NET_ADMIN alone, no rules to write', ADMIN, { rules: false }, /^nothing$/],
  ['NET_ADMIN alone', ADMIN, { rules: true }, /CAP_NET_RAW .*\[NET_ADMIN, NET_RAW\]/],
  ['NET_RAW alone', RAW, { rules: true }, /CAP_NET_ADMIN/],
  [
    'both, but Pods to prepare',
    ADMIN | RAW,
    { rules: true, podNamespaces: true },
    /--dsr-prepare-pods: .*CAP_SYS_ADMIN/,
  ],
  ['all that is needed for Pods', ADMIN | RAW | SYS_ADMIN, { rules: true, podNamespaces: true }, /^nothing$/],
  ['none', 0n, { rules: false }, /CAP_NET_ADMIN/],
])('%s', (_name, capabilities, needs, missing) => {
  expect(missingRight(status(capabilities), needs) ?? 'nothing').toMatch(missing);
});

test('if the rights of the process are unknown, the start is not refused', () => {
  expect(missingRight('Name:\tnode\n', { rules: true })).toBeUndefined();
});
