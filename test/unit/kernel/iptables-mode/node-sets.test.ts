import { expect, test } from '@jest/globals';
import { type IpAddress, parseIp } from '../../../../src/base/ip.ts';
import { localnetRules, ruleOfEntry } from '../../../../src/kernel/iptables-mode/node-sets.ts';

function rulesOf(text: string): string[] {
  return ruleOfEntry({ type: 'hash:ip', address: parseIp(text) as IpAddress }).map(
    ({ table, chain, rule }) => `${table} ${chain} ${rule}`,
  );
}

test('node port addresses, and the one rule of those of loopback that keeps other hosts out', () => {
  expect(rulesOf('192.0.2.1')).toEqual([
    expect.stringMatching(/^nat KUBE-SERVICES -d 192\.0\.2\.1\/32 .* -j KUBE-NODEPORTS$/),
  ]);
  expect(rulesOf('127.0.0.1')).toEqual([expect.stringMatching(/^nat KUBE-SERVICES -d 127\.0\.0\.1\/32 /)]);
  const shared = localnetRules(['127.0.0.1', '127.0.0.2', '::1'].map((text) => parseIp(text) as IpAddress));
  expect(shared.map(({ table, chain, rule }) => `${table} ${chain} ${rule}`)).toEqual([
    'filter KUBE-NODEPORTS ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP',
  ]);
  expect(localnetRules(['192.0.2.1', '::1'].map((text) => parseIp(text) as IpAddress))).toEqual([]);
});
