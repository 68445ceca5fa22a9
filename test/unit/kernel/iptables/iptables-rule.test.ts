import { describe, expect, test } from '@jest/globals';
import { canonicalRule, quoteArgument, splitRule } from '../../../../src/kernel/iptables/iptables-rule.ts';

/** Rules as one writes them, and as iptables-save (1.8.9, legacy and nft) printed them. */
const SAME = [
  ['-j MARK --or-mark 0x4000', '-j MARK --set-xmark 0x4000/0x4000'],
  ['-j MARK --xor-mark 0x4000', '-j MARK --set-xmark 0x4000/0x0'],
  ['-j MARK --and-mark 0xffffbfff', '-j MARK --set-xmark 0x0/0x4000'],
  ['-j MARK --set-mark 1', '-j MARK --set-xmark 0x1/0xffffffff'],
  ['-m mark ! --mark 0x4000/0x4000 -j RETURN', '-m mark ! --mark 16384/16384 -j RETURN'],
  ['-s 10.0.0.1 -j RETURN', '-s 10.0.0.1/32 -j RETURN'],
  ['-s ::1 -j RETURN', '-s ::1/128 -j RETURN'],
  ['-p tcp -j DNAT --to-destination [::1:2]:8080', '-p tcp -j DNAT --to-destination [::0.1.0.2]:8080'],
  ['--source 127.0.0.0/8 --jump RETURN', '-s 127.0.0.0/8 -j RETURN'],
  ['-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT', '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'],
  ['-j REJECT', '-j REJECT --reject-with icmp-port-unreachable'],
  ['-j REJECT', '-j REJECT --reject-with icmp6-port-unreachable'],
  ['-m comment --comment "a b" -p tcp -j ACCEPT', '-p tcp -m comment --comment "a b" -j ACCEPT'],
  [
    '-m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT',
    '-m addrtype ! --src-type LOCAL -m physdev ! --physdev-is-in -j ACCEPT',
  ],
] as const;

const DIFFERENT = [
  ['-s 10.0.0.1 -j RETURN', '! -s 10.0.0.1 -j RETURN'],
  ['-s 10.0.0.1 -j RETURN', '-d 10.0.0.1 -j RETURN'],
  ['-s 10.0.0.0/8 -j RETURN', '-s 10.0.0.0/9 -j RETURN'],
  ['-j MARK --or-mark 0x4000', '-j MARK --set-mark 0x4000'],
  ['-m set --match-set A dst,dst -j ACCEPT', '-m set --match-set A dst,src -j ACCEPT'],
  ['-m set --match-set A dst -j ACCEPT', '-m set ! --match-set A dst -j ACCEPT'],
  ['-m set --match-set A dst -j ACCEPT', '-m set --match-set A dst -j DROP'],
  ['-m comment --comment "a" -j X', '-m comment --comment "b" -j X'],
  ['-j DNAT --to-destination [::1:2]:8080', '-j DNAT --to-destination [::1:2]:8081'],
  ['-j MASQUERADE', '-j MASQUERADE --random-fully'],
  ['-j REJECT', '-j REJECT --reject-with tcp-reset'],
  ['-m physdev --physdev-is-in -j X', '-m physdev ! --physdev-is-in -j X'],
] as const;

describe('rules of iptables', () => {
  test.each(SAME)('%s is %s', (ours, theirs) => {
    expect(canonicalRule(splitRule(ours))).toBe(canonicalRule(splitRule(theirs)));
  });

  test.each(DIFFERENT)('%s is not %s', (one, other) => {
    expect(canonicalRule(splitRule(one))).not.toBe(canonicalRule(splitRule(other)));
  });

  test.each(['plain', 'two words', 'a "quoted" word', 'back\\slash', '0x4000/0x4000', ''])(
    'argument %j is read back unchanged',
    (argument) => {
      expect(splitRule(`-x ${quoteArgument(argument)} -y`)).toEqual(['-x', argument, '-y']);
    },
  );

  test.each(['line\nCOMMIT', 'nul\u0000', 'tab\t'])('control characters are refused: %j', (argument) => {
    expect(() => quoteArgument(argument)).toThrow(/control character/);
  });
});
