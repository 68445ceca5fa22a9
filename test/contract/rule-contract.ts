import { describe, expect, test } from '@jest/globals';
import type { IpFamily } from '../../src/base/ip.ts';
import type { Op } from '../../src/state/op.ts';
import type { RuleSet } from '../../src/state/rules/rule-set.ts';
import { Transaction } from '../../src/state/transaction.ts';
import type { ContractBed } from './contract-bed.ts';
import { set } from './objects.ts';

// In the spelling of iptables-save, so that what is read back is what was asked for.
function ruleSet(family: IpFamily, setName: string): RuleSet {
  const comment = ['-m', 'comment', '--comment', 'cluster IPs, "quoted"'];
  return {
    family,
    chains: [
      { table: 'nat', name: 'KUBE-MARK-MASQ', rules: [['-j', 'MARK', '--set-xmark', '0x4000/0x4000']] },
      {
        table: 'nat',
        name: 'KUBE-SERVICES',
        rules: [
          [...comment, '-m', 'set', '--match-set', setName, 'dst,dst', '-j', 'KUBE-MARK-MASQ'],
          ['-m', 'set', '--match-set', setName, 'dst,dst', '-j', 'ACCEPT'],
        ],
      },
      { table: 'filter', name: 'KUBE-FORWARD', rules: [['-m', 'mark', '--mark', '0x4000/0x4000', '-j', 'ACCEPT']] },
      { table: 'filter', name: 'KUBE-PROXY-FIREWALL', rules: [] },
    ],
    jumps: [
      { table: 'nat', from: 'PREROUTING', to: 'KUBE-SERVICES', comment: 'kubernetes service portals' },
      { table: 'nat', from: 'OUTPUT', to: 'KUBE-SERVICES', comment: 'kubernetes service portals' },
      { table: 'filter', from: 'FORWARD', to: 'KUBE-FORWARD', comment: 'kubernetes forwarding rules' },
      { table: 'filter', from: 'FORWARD', to: 'KUBE-PROXY-FIREWALL', comment: 'kube-proxy firewall rules' },
    ],
  };
}

export function ruleContract(family: IpFamily, bed: () => ContractBed): void {
  const one = set(family, 'CLUSTER-IP', 'hash:ip,port');
  const rules = ruleSet(family, one.name);
  const create: Op = { kind: 'create-set', set: one };
  const expected = [
    'filter -A FORWARD -m comment --comment "kube-proxy firewall rules" -j KUBE-PROXY-FIREWALL',
    'filter -A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD',
    'filter -A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT',
    'nat -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000',
    `nat -A KUBE-SERVICES -m comment --comment "cluster IPs, \\"quoted\\"" -m set --match-set ${one.name} dst,dst -j KUBE-MARK-MASQ`,
    `nat -A KUBE-SERVICES -m set --match-set ${one.name} dst,dst -j ACCEPT`,
    'nat -A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    'nat -A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
  ];

  describe('rules', () => {
    test('a test run of the rules writes nothing', async () => {
      const { kernel } = bed();
      const before = kernel.counters.writes;
      await kernel.probeRules(family);
      expect(await bed().rules(family)).toEqual([]);
      expect(kernel.counters.writes).toBe(before);
    });

    test('the variant of iptables is found without a write', async () => {
      const { kernel } = bed();
      const before = kernel.counters.writes;
      expect(['nft', 'legacy', 'system']).toContain(await kernel.findRuleVariant(family));
      expect(await bed().rules(family)).toEqual([]);
      expect(kernel.counters.writes).toBe(before);
    });

    test('rules are written once, restored after a flush, and removed', async () => {
      const { kernel } = bed();
      await kernel.apply(new Transaction([create]));
      expect(await kernel.ensureRules(rules)).toMatchObject({ changed: true });
      expect((await bed().rules(family)).sort()).toEqual(expected);
      const before = kernel.counters.writes;
      expect(await kernel.ensureRules(rules)).toMatchObject({ changed: false });
      expect(kernel.counters.writes).toBe(before);
      const inForce = await kernel.compareRules(rules);
      expect(inForce.missing).toEqual([]);
      expect(inForce.packets.get('nat KUBE-SERVICES')).toEqual([0, 0]);
      await bed().flushRules(family);
      const flushed = await kernel.compareRules(rules);
      expect(flushed.missing.map(({ command }) => command)).toContain(
        `${family === 4 ? 'iptables' : 'ip6tables'} -t nat -N KUBE-SERVICES`,
      );
      expect(flushed.packets.has('nat KUBE-SERVICES')).toBe(false);
      expect(await bed().rules(family)).toEqual([]);
      expect(await kernel.ensureRules(rules)).toMatchObject({ changed: true });
      expect((await bed().rules(family)).sort()).toEqual(expected);
      await kernel.removeRules(rules);
      expect(await bed().rules(family)).toEqual([]);
      await kernel.removeRules(rules);
    });

    test('rules follow the wanted rules', async () => {
      const { kernel } = bed();
      await kernel.apply(new Transaction([create]));
      await kernel.ensureRules(rules);
      const { chains } = rules;
      const fewer = { ...rules, chains: chains.map((chain) => ({ ...chain, rules: chain.rules.slice(0, 1) })) };
      expect(await kernel.ensureRules(fewer)).toMatchObject({ changed: true });
      expect((await bed().rules(family)).sort()).toEqual(
        expected.filter((line) => !line.endsWith('dst,dst -j ACCEPT')),
      );
    });

    test('rules are only added, and only if our chains hold no other rules', async () => {
      const { kernel } = bed();
      await kernel.apply(new Transaction([create]));
      expect(await kernel.addRules(rules)).toBe(true);
      expect((await bed().rules(family)).sort()).toEqual(expected);
      const before = kernel.counters.writes;
      expect(await kernel.addRules(rules)).toBe(true);
      const { chains } = rules;
      const fewer = { ...rules, chains: chains.map((chain) => ({ ...chain, rules: chain.rules.slice(0, 1) })) };
      expect(await kernel.addRules(fewer)).toBe(false);
      expect(kernel.counters.writes).toBe(before);
      expect((await bed().rules(family)).sort()).toEqual(expected);
      await bed().flushRules(family);
      expect(await kernel.addRules(fewer)).toBe(true);
    });

    test('rules that refer to a missing set are refused', async () => {
      await expect(bed().kernel.ensureRules(rules)).rejects.toThrow(/KUBE-/);
    });

    test('a set that rules refer to cannot be destroyed', async () => {
      const { kernel } = bed();
      await kernel.apply(new Transaction([create]));
      await kernel.ensureRules(rules);
      const destroy = new Transaction([{ kind: 'destroy-set', set: one }]);
      expect((await kernel.apply(destroy)).failures.map(({ code }) => code)).toEqual(['IPSET_ERR_BUSY']);
      await kernel.removeRules(rules);
      expect((await kernel.apply(destroy)).failures).toEqual([]);
      expect(await bed().sets()).toEqual([]);
    });
  });
}
