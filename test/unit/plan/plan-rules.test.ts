import { describe, expect, test } from '@jest/globals';
import type { IpFamily } from '../../../src/base/ip.ts';
import type { Port } from '../../../src/base/port.ts';
import type { PlanConfig } from '../../../src/plan/plan-config.ts';
import { planRules } from '../../../src/plan/ipvs/plan-rules.ts';
import { SET_ROLES, setName } from '../../../src/state/set-roles.ts';
import type { RuleTable } from '../../../src/state/rules/rule-set.ts';
import { cidr, config } from './build.ts';

/** The rules of a chain as lines, without their comments. */
function chain(
  name: string,
  { table = 'nat', family = 4, ...fields }: Partial<PlanConfig> & { table?: RuleTable; family?: IpFamily } = {},
): string[] {
  const found = planRules(config(fields), family).chains.find((each) => each.name === name && each.table === table);
  if (found === undefined) throw new Error(`there is no chain ${name} in ${table}`);
  return found.rules.map((rule) => {
    const at = rule.indexOf('comment');
    return (at < 0 ? rule : [...rule.slice(0, at - 1), ...rule.slice(at + 3)]).join(' ');
  });
}

const set = (name: string, directions: string): string => `-m set --match-set ${name} ${directions}`;

describe('the rules', () => {
  test('the rules do not depend on Services, and name only sets of their family', () => {
    for (const family of [4, 6] as const) {
      const names = new Set(SET_ROLES.map((role) => setName(role, family)));
      const matched = planRules(config(), family).chains.flatMap(({ rules }) =>
        rules.flatMap((rule) => rule.filter((_, at) => rule[at - 1] === '--match-set')),
      );
      expect(new Set(matched)).toEqual(names);
    }
  });

  test('the rules jump only to existing chains, and to every chain', () => {
    const { chains, jumps } = planRules(config(), 4);
    for (const table of ['mangle', 'nat', 'filter']) {
      const own = new Set(chains.filter((each) => each.table === table).map(({ name }) => name));
      const targets = [
        ...jumps.filter((each) => each.table === table).map(({ to }) => to),
        ...chains
          .filter((each) => each.table === table)
          .flatMap(({ rules }) => rules.map((rule) => rule[rule.indexOf('-j') + 1] ?? ''))
          .filter((target) => target.startsWith('KUBE-')),
      ];
      expect(new Set(targets)).toEqual(own);
    }
  });

  test('the rules have the jumps and comments that other tools expect', () => {
    const jumps = planRules(config(), 6).jumps.map(
      ({ table, from, to, comment }) => `${table} ${from} ${to} "${comment}"`,
    );
    for (const jump of [
      'nat OUTPUT KUBE-SERVICES "kubernetes service portals"',
      'nat PREROUTING KUBE-SERVICES "kubernetes service portals"',
      'nat POSTROUTING KUBE-POSTROUTING "kubernetes postrouting rules"',
      'filter FORWARD KUBE-FORWARD "kubernetes forwarding rules"',
      'filter INPUT KUBE-NODE-PORT "kubernetes health check rules"',
      'filter INPUT KUBE-PROXY-FIREWALL "kube-proxy firewall rules"',
      'filter FORWARD KUBE-PROXY-FIREWALL "kube-proxy firewall rules"',
      'filter INPUT KUBE-IPVS-FILTER "kubernetes ipvs access filter"',
      'filter OUTPUT KUBE-IPVS-OUT-FILTER "kubernetes ipvs access filter"',
    ]) {
      expect(jumps).toContain(jump);
    }
  });

  test('rules that reject come before rules that accept: each jump is inserted first, so the last listed one comes first', () => {
    const { jumps } = planRules(config(), 4);
    const order = (from: string): string[] =>
      jumps
        .filter((each) => each.table === 'filter' && each.from === from && each.position !== 'last')
        .map(({ to }) => to)
        .toReversed();
    expect(order('INPUT')).toEqual(['KUBE-IPVS-FILTER', 'KUBE-PROXY-FIREWALL', 'KUBE-NODE-PORT']);
    expect(order('FORWARD')).toEqual(['KUBE-PROXY-FIREWALL', 'KUBE-FORWARD']);
    expect(jumps.filter(({ position }) => position === 'last').map(({ to }) => to)).toEqual(['KUBE-IPVS-ACCEPT']);
  });
});

describe('nat KUBE-SERVICES', () => {
  test('the rules of nat KUBE-SERVICES are in this order', () => {
    expect(chain('KUBE-SERVICES')).toEqual([
      '-s 127.0.0.0/8 -j RETURN',
      `${set('KUBE-IPVS-IPS', 'src')} ${set('KUBE-IPVS-IPS', 'dst')} -j KUBE-MARK-MASQ`,
      `${set('KUBE-LOAD-BALANCER', 'dst,dst')} -j KUBE-LOAD-BALANCER`,
      `${set('KUBE-CLUSTER-IP', 'src,dst')} -j KUBE-MARK-MASQ`,
      `${set('KUBE-EXTERNAL-IP', 'dst,dst')} -j KUBE-MARK-MASQ`,
      `${set('KUBE-EXTERNAL-IP', 'dst,dst')} -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT`,
      `${set('KUBE-EXTERNAL-IP', 'dst,dst')} -m addrtype --dst-type LOCAL -j ACCEPT`,
      `${set('KUBE-EXTERNAL-IP-LOCAL', 'dst,dst')} -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT`,
      `${set('KUBE-EXTERNAL-IP-LOCAL', 'dst,dst')} -m addrtype --dst-type LOCAL -j ACCEPT`,
      `${set('KUBE-CLUSTER-IP', 'dst,dst')} -j ACCEPT`,
      `${set('KUBE-LOAD-BALANCER', 'dst,dst')} -j ACCEPT`,
      `-m addrtype --dst-type LOCAL ${set('KUBE-NODE-PORT-IP', 'dst')} -j KUBE-NODE-PORT`,
    ]);
  });

  test.each<[string, Partial<PlanConfig>, string]>([
    ['nothing known of local pods', {}, set('KUBE-CLUSTER-IP', 'src,dst')],
    [
      'masqueradeAll',
      { masqueradeAll: true, localDetectors: { 4: { kind: 'bridge', interfaceName: 'cbr0' } } },
      set('KUBE-CLUSTER-IP', 'dst,dst'),
    ],
    [
      'a cluster CIDR',
      { localDetectors: { 4: { kind: 'cidr', cidr: cidr('10.244.0.0/16') } } },
      `${set('KUBE-CLUSTER-IP', 'dst,dst')} ! -s 10.244.0.0/16`,
    ],
    [
      'a cluster CIDR of the other family',
      { localDetectors: { 6: { kind: 'cidr', cidr: cidr('fd00::/64') } } },
      set('KUBE-CLUSTER-IP', 'src,dst'),
    ],
    [
      'a bridge',
      { localDetectors: { 4: { kind: 'bridge', interfaceName: 'cbr0' } } },
      `${set('KUBE-CLUSTER-IP', 'dst,dst')} ! -i cbr0`,
    ],
    [
      'interfaces by prefix',
      { localDetectors: { 4: { kind: 'interface-prefix', prefix: 'veth' } } },
      `${set('KUBE-CLUSTER-IP', 'dst,dst')} ! -i veth+`,
    ],
  ])('marks cluster IP traffic with %s', (_name, fields, matches) => {
    expect(chain('KUBE-SERVICES', fields)[3]).toBe(`${matches} -j KUBE-MARK-MASQ`);
  });

  test('connections of the node from a service address are marked before an exception for policy Local can match', () => {
    for (const family of [4, 6] as const) {
      const rules = chain('KUBE-SERVICES', { family });
      const own = rules.findIndex((rule) => rule.includes('IPVS-IPS src'));
      expect(own).toBeGreaterThan(0);
      expect(own).toBeLessThan(rules.findIndex((rule) => rule.endsWith('KUBE-LOAD-BALANCER')));
    }
  });
});

describe('masquerading', () => {
  test('masquerading sets one bit of the mark, clears it again and leaves the others', () => {
    expect(chain('KUBE-MARK-MASQ', { masqueradeMark: 1 << 20 })).toEqual(['-j MARK --or-mark 0x100000']);
    expect(chain('KUBE-POSTROUTING', { masqueradeMark: 1 << 20 })).toEqual([
      `${set('KUBE-LOOP-BACK', 'dst,dst,src')} -j MASQUERADE --random-fully`,
      '-m mark ! --mark 0x100000/0x100000 -j RETURN',
      '-j MARK --xor-mark 0x100000',
      '-j MASQUERADE --random-fully',
    ]);
  });

  test('the highest mark bit is written as a positive number', () => {
    expect(chain('KUBE-MARK-MASQ', { masqueradeMark: 1 << 31 })).toEqual(['-j MARK --or-mark 0x80000000']);
  });

  test('--random-fully is omitted if iptables does not support it', () => {
    expect(chain('KUBE-POSTROUTING', { randomFully: false }).at(-1)).toBe('-j MASQUERADE');
  });

  test('--masquerade-port-range restricts the source ports of masquerading', () => {
    const masqueradePorts = { from: 1024 as Port, to: 29_999 as Port };
    expect(chain('KUBE-POSTROUTING', { masqueradePorts }).slice(-4)).toEqual([
      '-p tcp -j MASQUERADE --to-ports 1024-29999 --random-fully',
      '-p udp -j MASQUERADE --to-ports 1024-29999 --random-fully',
      '-p sctp -j MASQUERADE --to-ports 1024-29999 --random-fully',
      '-j MASQUERADE --random-fully',
    ]);
  });

  test('the masquerade rule has the comment that other tools expect', () => {
    const rules = planRules(config(), 4).chains.find(({ name }) => name === 'KUBE-POSTROUTING')?.rules ?? [];
    expect(rules.at(-1)).toContain('kubernetes service traffic requiring SNAT');
  });

  test('NodePorts with policy Local are not masqueraded, for each protocol', () => {
    expect(chain('KUBE-LOAD-BALANCER')).toEqual([
      `${set('KUBE-LOAD-BALANCER-LOCAL', 'dst,dst')} -j RETURN`,
      '-j KUBE-MARK-MASQ',
    ]);
    expect(chain('KUBE-NODE-PORT', { family: 6 })).toEqual([
      `-p tcp ${set('KUBE-6-NODE-PORT-LOCAL-TCP', 'dst')} -j RETURN`,
      `-p tcp ${set('KUBE-6-NODE-PORT-TCP', 'dst')} -j KUBE-MARK-MASQ`,
      `-p udp ${set('KUBE-6-NODE-PORT-LOCAL-UDP', 'dst')} -j RETURN`,
      `-p udp ${set('KUBE-6-NODE-PORT-UDP', 'dst')} -j KUBE-MARK-MASQ`,
      `-p sctp ${set('KUBE-6-NODE-PORT-LOCAL-SCTP-HAS', 'dst,dst')} -j RETURN`,
      `-p sctp ${set('KUBE-6-NODE-PORT-SCTP-HASH', 'dst,dst')} -j KUBE-MARK-MASQ`,
    ]);
  });
});

describe('filter', () => {
  test('KUBE-FORWARD accepts service traffic', () => {
    expect(chain('KUBE-FORWARD', { table: 'filter' })).toEqual([
      '-m mark --mark 0x4000/0x4000 -j ACCEPT',
      '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
    ]);
  });

  test('KUBE-NODE-PORT accepts connections to health check ports', () => {
    expect(chain('KUBE-NODE-PORT', { table: 'filter' })).toEqual([
      `-p tcp ${set('KUBE-HEALTH-CHECK-NODE-PORT', 'dst')} -j ACCEPT`,
    ]);
  });

  test.each(['filter', 'mangle'] as const)('source ranges in %s', (table) => {
    expect(chain('KUBE-PROXY-FIREWALL', { table })).toEqual([
      `${set('KUBE-LOAD-BALANCER-FW', 'dst,dst')} -j KUBE-SOURCE-RANGES-FIREWALL`,
    ]);
    expect(chain('KUBE-SOURCE-RANGES-FIREWALL', { table })).toEqual([
      `${set('KUBE-LOAD-BALANCER-SOURCE-CIDR', 'dst,dst,src')} -j RETURN`,
      `${set('KUBE-LOAD-BALANCER-SOURCE-IP', 'dst,dst,src')} -j RETURN`,
      '-j DROP',
    ]);
  });

  test.each([
    [4, 'KUBE-', '-p icmp -m icmp --icmp-type 8'],
    [6, 'KUBE-6-', '-p ipv6-icmp -m icmp6 --icmpv6-type 128'],
  ] as const)(
    'KUBE-IPVS-FILTER of IPv%i rejects connections to ports that no Service has, but no pings',
    (family, prefix, echo) => {
      expect(chain('KUBE-IPVS-FILTER', { table: 'filter', family })).toEqual([
        `${set(`${prefix}LOAD-BALANCER`, 'dst,dst')} -j RETURN`,
        `${set(`${prefix}CLUSTER-IP`, 'dst,dst')} -j RETURN`,
        `${set(`${prefix}EXTERNAL-IP`, 'dst,dst')} -j RETURN`,
        `${set(`${prefix}EXTERNAL-IP-LOCAL`, 'dst,dst')} -j RETURN`,
        `${set(`${prefix}HEALTH-CHECK-NODE-PORT`, 'dst')} -j RETURN`,
        `${echo} -j RETURN`,
        `-m conntrack --ctstate NEW ${set(`${prefix}IPVS-IPS`, 'dst')} -j REJECT`,
      ]);
    },
  );

  test('KUBE-IPVS-ACCEPT accepts service traffic despite a policy of DROP', () => {
    expect(chain('KUBE-IPVS-ACCEPT', { table: 'filter' })).toEqual([
      `${set('KUBE-LOAD-BALANCER', 'dst,dst')} -j ACCEPT`,
      `${set('KUBE-CLUSTER-IP', 'dst,dst')} -j ACCEPT`,
      `${set('KUBE-EXTERNAL-IP', 'dst,dst')} -j ACCEPT`,
      `${set('KUBE-EXTERNAL-IP-LOCAL', 'dst,dst')} -j ACCEPT`,
      `-p tcp ${set('KUBE-NODE-PORT-IP', 'dst')} ${set('KUBE-NODE-PORT-TCP', 'dst')} -j ACCEPT`,
      `-p udp ${set('KUBE-NODE-PORT-IP', 'dst')} ${set('KUBE-NODE-PORT-UDP', 'dst')} -j ACCEPT`,
      `-p sctp ${set('KUBE-NODE-PORT-IP', 'dst')} ${set('KUBE-NODE-PORT-SCTP-HASH', 'dst,dst')} -j ACCEPT`,
    ]);
  });

  test('KUBE-IPVS-OUT-FILTER exists and is empty: table mangle has its rules', () => {
    expect(chain('KUBE-IPVS-OUT-FILTER', { table: 'filter' })).toEqual([]);
  });
});

describe('local routes', () => {
  const localRouteCidrs = [cidr('10.96.0.0/12'), cidr('fd00:96::/112')];
  const filter = (fields: Partial<PlanConfig>, family: IpFamily): string[] =>
    chain('KUBE-IPVS-FILTER', { ...fields, table: 'filter', family });

  test('in light mode, addresses that no Service has are closed, also to pings', () => {
    const plain = filter({}, 4);
    const closed = filter({ localRouteCidrs }, 4);
    const added = closed.filter((line) => !plain.includes(line));
    expect(added).toEqual([
      '-d 10.96.0.0/12 -m set ! --match-set KUBE-IPVS-IPS dst -m conntrack --ctstate NEW -j REJECT',
    ]);
    expect(closed.findIndex((line) => line.includes('icmp'))).toBe(closed.indexOf(added[0]!) + 1);
    expect(filter({ localRouteCidrs }, 6)).toContain(
      '-d fd00:96::/112 -m set ! --match-set KUBE-6-IPVS-IPS dst -m conntrack --ctstate NEW -j REJECT',
    );
  });

  test('in light mode, addresses of --ipvs-unbound-cidrs stay open', () => {
    const lines = filter({ localRouteCidrs, unboundCidrs: [cidr('10.96.0.10/32'), cidr('fd00:96::a/128')] }, 4);
    const at = lines.indexOf('-d 10.96.0.10/32 -j RETURN');
    expect(at).toBeGreaterThan(0);
    expect(lines[at + 1]).toMatch(/^-d 10\.96\.0\.0\/12 .*REJECT$/);
    expect(filter({ unboundCidrs: [cidr('10.96.0.10/32')] }, 4)).toEqual(filter({}, 4));
  });
});
