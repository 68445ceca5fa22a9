import { expect, test } from '@jest/globals';
import { type IpAddress, parseIp } from '../../../../src/base/ip.ts';
import { ruleOfEntry } from '../../../../src/kernel/iptables-mode/node-sets.ts';

function rulesOf(text: string): string[] {
  return ruleOfEntry({ type: 'hash:ip', address: parseIp(text) as IpAddress }).map(
    ({ table, chain, rule }) => `${table} ${chain} ${rule}`,
  );
}

test('a node port address of loopback has a rule that keeps other hosts out', () => {
  expect(rulesOf('192.0.2.1')).toEqual([
    expect.stringMatching(/^nat KUBE-SERVICES -d 192\.0\.2\.1\/32 .* -j KUBE-NODEPORTS$/),
  ]);
  expect(rulesOf('127.0.0.1')).toEqual([
    expect.stringMatching(/^nat KUBE-SERVICES -d 127\.0\.0\.1\/32 /),
    'filter KUBE-NODEPORTS ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP',
  ]);
});
