import { describe, expect, test } from '@jest/globals';
import { rulesetOfIptables } from '../../trace/iptables-text.ts';
import { ends, packet } from './tracing.ts';

const BUILT_IN = {
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
};

/** The output of iptables-save with these rules, each with its chain. */
function saved(rules: { readonly nat?: readonly string[]; readonly filter?: readonly string[] }): string {
  return (['nat', 'filter'] as const)
    .map((table) => {
      const lines = rules[table] ?? [];
      const chains = new Set([...BUILT_IN[table], ...lines.map((line) => line.split(' ')[0] ?? '')]);
      const declared = Array.from(chains, (chain) => `:${chain} - [0:0]`);
      return [`*${table}`, ...declared, ...lines.map((line) => `-A ${line}`), 'COMMIT', ''].join('\n');
    })
    .join('');
}

const MARKING = [
  'KUBE-MARK-MASQ -j MARK --or-mark 0x4000',
  'POSTROUTING -j KUBE-POSTROUTING',
  'KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
  'KUBE-POSTROUTING -j MARK --xor-mark 0x4000',
  'KUBE-POSTROUTING -m comment --comment "with SNAT" -j MASQUERADE --random-fully',
];

describe('tracing rules of iptables', () => {
  test('random choices lead to each endpoint, and one that is its own client is masqueraded', () => {
    const rules = rulesetOfIptables(
      saved({
        nat: [
          ...MARKING,
          'PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
          'KUBE-SERVICES -m tcp -p tcp -d 10.96.0.1 --dport 80 -j KUBE-SVC-A',
          'KUBE-SVC-A -d 10.96.0.1/32 ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ',
          'KUBE-SVC-A -m statistic --mode random --probability 0.3333333333 -j KUBE-SEP-1',
          'KUBE-SVC-A -m statistic --mode random --probability 0.5000000000 -j KUBE-SEP-2',
          'KUBE-SVC-A -j KUBE-SEP-3',
          ...[1, 2, 3].flatMap((host) => [
            `KUBE-SEP-${host} -s 10.244.0.${host}/32 -j KUBE-MARK-MASQ`,
            `KUBE-SEP-${host} -p tcp -m tcp -j DNAT --to-destination 10.244.0.${host}:8080`,
          ]),
        ],
      }),
    );
    expect(ends(rules, packet('10.244.0.2', '10.96.0.1:80'))).toEqual({
      'translated to 10.244.0.1:8080': 0.333,
      'translated to 10.244.0.2:8080, masqueraded': 0.333,
      'translated to 10.244.0.3:8080': 0.333,
    });
    expect(Object.keys(ends(rules, packet('203.0.113.9', '10.96.0.1:80')))).toEqual(
      [1, 2, 3].map((host) => `translated to 10.244.0.${host}:8080, masqueraded`),
    );
    expect(ends(rules, packet('203.0.113.9', '10.96.0.1:81'))).toEqual({ forwarded: 1 });
    expect(ends(rules, packet('203.0.113.9', '10.96.0.1:80', { protocol: 'UDP' }))).toEqual({ forwarded: 1 });
    expect(ends(rules, packet('192.168.9.1', '10.96.0.1:80', { through: '' }))).toEqual({ forwarded: 1 });
  });

  test('a client that is remembered reaches the same endpoint', () => {
    const ofEndpoint = (host: number): readonly string[] => [
      `KUBE-SEP-${host} -p tcp -m recent --name KUBE-SEP-${host} --set -m tcp -j DNAT --to-destination 10.244.0.${host}:80`,
    ];
    const remembered = (host: number): string =>
      `PREROUTING -m recent --rcheck --seconds 600 --reap --name KUBE-SEP-${host} --mask 255.255.255.255 --rsource -j KUBE-SEP-${host}`;
    const last = ['PREROUTING -m statistic --mode random --probability 0.25 -j KUBE-SEP-1', 'PREROUTING -j KUBE-SEP-2'];
    const sticky = rulesetOfIptables(
      saved({ nat: [remembered(1), remembered(2), ...last, ...[1, 2].flatMap(ofEndpoint)] }),
    );
    expect(ends(sticky, packet('10.0.0.9', '10.96.0.1:80'))).toEqual({
      'translated to 10.244.0.1:80, affinity 600s': 0.25,
      'translated to 10.244.0.2:80, affinity 600s': 0.75,
    });
    // The second endpoint remembers its clients, but nothing looks for them.
    const half = rulesetOfIptables(saved({ nat: [remembered(1), ...last, ...[1, 2].flatMap(ofEndpoint)] }));
    expect(Object.keys(ends(half, packet('10.0.0.9', '10.96.0.1:80')))).toEqual([
      'translated to 10.244.0.1:80, affinity 600s',
      'translated to 10.244.0.2:80',
    ]);
  });

  test('table filter sees the packet after the translation, in the hook of its way', () => {
    const rules = rulesetOfIptables(
      saved({
        nat: ['PREROUTING -d 10.96.0.1 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.0.1:8080'],
        filter: [
          'FORWARD -d 10.96.0.1/32 -j DROP',
          'FORWARD -m conntrack --ctstate NEW -d 10.96.0.2/32 -j REJECT --reject-with icmp-port-unreachable',
          'FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j DROP',
          'FORWARD -d 10.244.0.1 -m conntrack --ctstate DNAT -j ACCEPT',
          'INPUT -m addrtype --dst-type LOCAL ! -d 127.0.0.0/8 -p tcp -m tcp --dport 30000 -j DROP',
        ],
      }),
    );
    expect(ends(rules, packet('10.0.0.9', '10.96.0.1:80'))).toEqual({ 'translated to 10.244.0.1:8080, accepted': 1 });
    expect(ends(rules, packet('10.0.0.9', '10.96.0.1:81'))).toEqual({ dropped: 1 });
    expect(ends(rules, packet('10.0.0.9', '10.96.0.2:81'))).toEqual({ rejected: 1 });
    expect(ends(rules, packet('10.0.0.9', '192.168.9.1:30000'))).toEqual({ dropped: 1 });
    expect(ends(rules, packet('10.0.0.9', '192.168.9.1:30001'))).toEqual({ here: 1 });
    // By way of the loopback interface: the translation of prerouting is that of output, which has none.
    expect(ends(rules, packet('192.168.9.1', '192.168.9.1:30000', { through: '' }))).toEqual({ dropped: 1 });
    expect(ends(rules, packet('192.168.9.1', '10.96.0.1:80', { through: '' }))).toEqual({ forwarded: 1 });
  });

  test('interfaces', () => {
    const text = saved({ nat: ['PREROUTING ! -i veth+ -j KUBE-MARK-MASQ', ...MARKING] });
    const rules = rulesetOfIptables(text);
    expect(ends(rules, packet('10.0.0.9', '10.96.0.1:80', { through: 'veth12' }))).toEqual({ forwarded: 1 });
    expect(ends(rules, packet('10.0.0.9', '10.96.0.1:80'))).toEqual({ 'forwarded, masqueraded': 1 });
  });

  test.each([
    ['FORWARD -m set --match-set X dst -j DROP', 'unknown match set'],
    ['FORWARD -j TPROXY', 'unknown target TPROXY'],
    ['FORWARD -p tcp -m tcp --sport 80 -j DROP', 'unknown option --sport of tcp'],
    ['FORWARD -o eth0 -j DROP', 'unknown option -o of header'],
    ['FORWARD -m addrtype --dst-type MULTICAST -j DROP', 'address type MULTICAST'],
    ['FORWARD -m conntrack --ctstate UNTRACKED -j DROP', 'state UNTRACKED'],
    ['FORWARD -m recent --update --seconds 5 --name x -j DROP', '--set and --rcheck'],
    ['FORWARD -m statistic --mode nth --every 2 -j DROP', 'mode nth'],
    ['FORWARD -j REJECT --with-what', 'unknown option --with-what'],
    ['FORWARD -g KUBE-X', 'unknown option -g'],
  ])('%s is refused', (rule, reason) => {
    expect(() => rulesetOfIptables(saved({ filter: [rule] }))).toThrow(reason);
  });
});
