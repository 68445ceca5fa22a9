import { describe, expect, test } from '@jest/globals';
import { rulesetOfNft } from '../../trace/nft-text.ts';
import { ends, packet } from './tracing.ts';

const BASE = `
add table ip kube-proxy { comment "rules" ; }
add chain ip kube-proxy nat-prerouting { type nat hook prerouting priority -100 ; }
add chain ip kube-proxy nat-postrouting { type nat hook postrouting priority srcnat ; }
add chain ip kube-proxy filter-pre-dnat { type filter hook prerouting priority dstnat-10 ; }
add chain ip kube-proxy filter-forward { type filter hook forward priority 0 ; }
add chain ip kube-proxy reject-chain { comment "helper for @x" ; }
add rule ip kube-proxy reject-chain reject
`;

/** A table with these chains and lines, without "ip kube-proxy". */
function ruleset(chains: readonly string[], lines: readonly string[]): ReturnType<typeof rulesetOfNft> {
  const added = [...chains.map((chain) => `chain ${chain}`), ...lines];
  return rulesetOfNft(BASE + added.map((line) => `add ${line.replace(' ', ' ip kube-proxy ')}\n`).join(''));
}

const MASQUERADING = [
  'rule nat-postrouting mark and 0x4000 != 0 mark set mark xor 0x4000 masquerade fully-random',
  'rule nat-postrouting ct status dnat ip saddr . ip daddr . meta l4proto . th dport @hairpin masquerade fully-random',
];

describe('tracing rules of nftables', () => {
  test('verdict maps, random endpoints, marks and hairpin connections', () => {
    const rules = ruleset(
      ['service-a'],
      [
        'set hairpin { type ipv4_addr . ipv4_addr . inet_proto . inet_service ; comment "a ; b" ; }',
        'map service-ips { type ipv4_addr . inet_proto . inet_service : verdict ; }',
        'set cluster-ips { type ipv4_addr ; }',
        ...MASQUERADING,
        'rule nat-prerouting ip daddr @cluster-ips ip saddr != 10.244.0.0/16 mark set mark or 0x4000 comment "from outside"',
        'rule nat-prerouting ip daddr . meta l4proto . th dport vmap @service-ips',
        'rule service-a meta l4proto tcp dnat ip addr . port to numgen random mod 2 map { 0 : 10.244.0.1 . 8080 , 1 : 10.244.0.2 . 8081 }',
        'rule filter-forward ct state new ip daddr @cluster-ips reject',
        'element hairpin { 10.244.0.1 . 10.244.0.1 . tcp . 8080 }',
        'element service-ips { 10.96.0.1 . tcp . 80 comment "default/a:p" : goto service-a }',
        'element cluster-ips { 10.96.0.1 }',
      ],
    );
    expect(ends(rules, packet('10.244.0.1', '10.96.0.1:80'))).toEqual({
      'translated to 10.244.0.1:8080, masqueraded': 0.5,
      'translated to 10.244.0.2:8081': 0.5,
    });
    expect(Object.keys(ends(rules, packet('203.0.113.9', '10.96.0.1:80')))).toEqual([
      'translated to 10.244.0.1:8080, masqueraded',
      'translated to 10.244.0.2:8081, masqueraded',
    ]);
    expect(ends(rules, packet('10.244.0.1', '10.96.0.1:81'))).toEqual({ rejected: 1 });
  });

  test('source ranges are checked before the translation; goto does not return', () => {
    const rules = ruleset(
      ['fw', 'fw-check'],
      [
        'rule filter-pre-dnat ct state new jump fw-check',
        'rule filter-pre-dnat ip daddr 192.0.2.2 drop',
        'rule fw-check ip daddr 192.0.2.1 goto fw',
        'rule fw-check drop',
        'rule fw ip saddr != { 203.0.113.0/24 , 192.0.2.1 } drop',
      ],
    );
    expect(ends(rules, packet('203.0.113.9', '192.0.2.1:80'))).toEqual({ forwarded: 1 });
    expect(ends(rules, packet('192.0.2.1', '192.0.2.1:80'))).toEqual({ forwarded: 1 });
    expect(ends(rules, packet('203.0.114.9', '192.0.2.1:80'))).toEqual({ dropped: 1 });
    expect(ends(rules, packet('203.0.113.9', '192.0.2.3:80'))).toEqual({ dropped: 1 });
  });

  test('a client that is remembered reaches the same endpoint', () => {
    const rules = ruleset(
      ['endpoint-1', 'endpoint-2'],
      [
        'set affinity-1 { type ipv4_addr ; flags dynamic,timeout ; timeout 600s ; }',
        'set affinity-2 { type ipv4_addr ; flags dynamic,timeout ; timeout 600s ; }',
        'rule nat-prerouting ip saddr @affinity-1 goto endpoint-1',
        'rule nat-prerouting ip saddr @affinity-2 goto endpoint-2',
        'rule nat-prerouting numgen random mod 2 vmap { 0 : goto endpoint-1 , 1 : goto endpoint-2 }',
        ...[1, 2].flatMap((host) => [
          `rule endpoint-${host} update @affinity-${host} { ip saddr }`,
          `rule endpoint-${host} meta l4proto tcp dnat to 10.244.0.${host}:80`,
        ]),
      ],
    );
    expect(ends(rules, packet('10.0.0.9', '10.96.0.1:80'))).toEqual({
      'translated to 10.244.0.1:80, affinity 600s': 0.5,
      'translated to 10.244.0.2:80, affinity 600s': 0.5,
    });
  });

  test('local addresses and interfaces', () => {
    const rules = ruleset(
      [],
      [
        'map node-ports { type inet_proto . inet_service : verdict ; }',
        'rule nat-prerouting fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto . th dport vmap @node-ports',
        'rule filter-forward iifname != veth* drop',
        'element node-ports { udp . 30000 : goto reject-chain }',
      ],
    );
    expect(ends(rules, packet('10.0.0.9', '192.168.9.1:30000', { protocol: 'UDP' }))).toEqual({ rejected: 1 });
    expect(ends(rules, packet('10.0.0.9', '127.0.0.1:30000', { protocol: 'UDP' }))).toEqual({ here: 1 });
    expect(ends(rules, packet('10.0.0.9', '10.0.0.8:30000', { protocol: 'UDP' }))).toEqual({ dropped: 1 });
    expect(ends(rules, packet('10.0.0.9', '10.0.0.8:30000', { through: 'veth1' }))).toEqual({ forwarded: 1 });
  });

  test.each([
    ['rule filter-forward tcp dport 80 drop', 'unknown statement tcp'],
    ['rule filter-forward ct state established drop', '"state" in place of "status dnat"'],
    ['rule filter-forward ip ttl 3 drop', 'unknown field ttl'],
    ['rule filter-forward snat to 10.0.0.1', 'unknown statement snat'],
    ['rule filter-forward jump', 'the line ends too early'],
    ['rule filter-forward ip daddr @unknown drop', 'unknown is not defined'],
    ['rule unknown drop', 'unknown is not defined'],
    ['set s { type ipv4_addr ; flags interval ; }', 'unknown flag interval'],
    ['set s { type ipv4_addr ; size 5 ; }', 'unknown property size'],
    ['flowtable f { hook ingress priority 0 ; }', 'unknown object flowtable'],
    ['chain c { type route hook output priority 0 ; }', 'type route'],
  ])('%s is refused', (line, reason) => {
    expect(() => ruleset([], [line])).toThrow(reason);
  });
});
