import { expect, test } from '@jest/globals';
import { formatCidr, parseCidr } from '../../../src/base/cidr.ts';
import { formatIp } from '../../../src/base/ip.ts';
import { fewestNetworks, intervalsOf } from '../../../src/base/cidr-intervals.ts';

const of = (...networks: readonly string[]): readonly string[] =>
  intervalsOf(networks.map((each) => parseCidr(each)!)).map(
    ({ from, until }) => `${formatIp(from)} - ${until === undefined ? '' : formatIp(until)}`,
  );

test.each<readonly [string, readonly string[], readonly string[]]>([
  ['none', [], []],
  ['apart, in any order', ['192.0.2.1/32', '10.0.0.0/8'], ['10.0.0.0 - 11.0.0.0', '192.0.2.1 - 192.0.2.2']],
  ['one in another', ['10.1.2.0/24', '10.0.0.0/8', '10.255.255.255/32'], ['10.0.0.0 - 11.0.0.0']],
  ['the same twice', ['10.0.0.0/8', '10.0.0.0/8'], ['10.0.0.0 - 11.0.0.0']],
  [
    'one after another',
    ['10.0.0.0/25', '10.0.0.128/25', '10.0.2.0/24'],
    ['10.0.0.0 - 10.0.1.0', '10.0.2.0 - 10.0.3.0'],
  ],
  ['up to the last address', ['255.0.0.0/8', '255.255.255.255/32', '1.0.0.0/8'], ['1.0.0.0 - 2.0.0.0', '255.0.0.0 - ']],
  ['all', ['0.0.0.0/0', '10.0.0.0/8'], ['0.0.0.0 - ']],
  ['the halves of all', ['128.0.0.0/1', '0.0.0.0/1'], ['0.0.0.0 - ']],
  ['of IPv6', ['fd00:1::/32', 'fd00::/32', 'ffff::/16'], ['fd00:: - fd00:2::', 'ffff:: - ']],
  ['all of IPv6', ['::/0'], [':: - ']],
])('%s', (_name, networks, intervals) => {
  expect(of(...networks)).toEqual(intervals);
});

test.each<readonly [string, readonly string[], readonly string[]]>([
  ['none', [], []],
  ['one', ['192.0.2.1/32'], ['192.0.2.1/32']],
  ['one in another', ['10.1.2.0/24', '10.0.0.0/8'], ['10.0.0.0/8']],
  ['two halves', ['10.0.0.128/25', '10.0.0.0/25'], ['10.0.0.0/24']],
  ['neighbours that are no halves', ['10.0.1.0/24', '10.0.2.0/24'], ['10.0.1.0/24', '10.0.2.0/24']],
  ['halves of halves', ['10.0.0.0/25', '10.0.0.128/26', '10.0.0.192/26', '10.0.1.0/24'], ['10.0.0.0/23']],
  ['the last address', ['255.255.255.255/32', '255.255.255.254/32'], ['255.255.255.254/31']],
  ['the halves of all', ['128.0.0.0/1', '0.0.0.0/1'], ['0.0.0.0/0']],
  ['of IPv6', ['fd00:1::/32', 'fd00::/32', 'ffff::/16', '::/128'], ['::/128', 'fd00::/31', 'ffff::/16']],
  ['the halves of all of IPv6', ['8000::/1', '::/1'], ['::/0']],
])('the fewest networks: %s', (_name, networks, fewest) => {
  expect(fewestNetworks(networks.map((each) => parseCidr(each)!)).map(formatCidr)).toEqual(fewest);
});
