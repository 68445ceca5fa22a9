import { describe, expect, test } from '@jest/globals';
import { servicePortName } from '../../../src/base/service-port-name.ts';
import { namespacedName } from '../../../src/base/names.ts';
import { IP_FAMILIES } from '../../../src/base/ip.ts';
import { isOmitted } from '../../../src/kernel/iptables-mode/roles.ts';
import { IPTABLES_MODE_PLAN } from '../../../src/plan/iptables-mode-plan.ts';
import { rulesOfIpvsOnly, rulesToRemove } from '../../../src/plan/plan-rules.ts';
import { SET_ROLES, setName } from '../../../src/plan/set-names.ts';
import { JUMPS, SHARED_CHAINS, baseChains } from '../../../src/kernel/iptables-mode/base-chains.ts';

const SETTINGS = { masqueradeAll: false, masqueradeMark: 0x4000, randomFully: true };

describe('what is planned for iptables mode', () => {
  test.each(IP_FAMILIES)('the sets that are left out are those that its kernel has no rules for, IPv%i', (family) => {
    const omitted = SET_ROLES.filter((role) => isOmitted(setName(role, family)));
    expect(new Set(omitted)).toEqual(IPTABLES_MODE_PLAN.omittedRoles);
  });

  test('chains that both modes have are not removed with ipvs mode', () => {
    const ours = new Set([...SHARED_CHAINS, ...baseChains(SETTINGS)].map(({ table, name }) => `${table} ${name}`));
    const { chains, jumps } = rulesOfIpvsOnly(4);
    const labels = (list: typeof chains): string[] => list.map(({ table, name }) => `${table} ${name}`);
    const removed = new Set(labels(chains));
    const kept = labels(rulesToRemove(4).chains).filter((label) => !removed.has(label));
    expect(labels(chains).filter((label) => ours.has(label))).toEqual([]);
    expect(kept.filter((label) => !ours.has(label))).toEqual([]);
    for (const { table, from, rule } of JUMPS) {
      expect(jumps.some((jump) => jump.table === table && jump.from === from && rule.endsWith(` ${jump.to}`))).toBe(
        false,
      );
    }
  });
});

describe('the name of a service port', () => {
  test.each([
    ['default', 'web', 'http', 'default/web:http'],
    ['default', 'web', '', 'default/web'],
    ['n'.repeat(63), 's'.repeat(63), 'p'.repeat(63), `${'n'.repeat(63)}/${'s'.repeat(63)}:${'p'.repeat(63)}`],
  ])('%s %s %s is that of kube-proxy', (namespace, service, port, name) => {
    expect(servicePortName(namespacedName(namespace, service), port)).toBe(name);
  });

  test.each([
    ['a"b', 'web', 'http'],
    ['default', 'web\n-A OUTPUT -j DROP', ''],
    ['default', 'w'.repeat(300), 'http'],
    ['default', 'w eb', ''],
  ])('%j %j %j is made safe, and stays unique', (namespace, service, port) => {
    const name = servicePortName(namespacedName(namespace, service), port);
    expect(name).toMatch(/^[A-Za-z0-9./:_-]{1,191}$/);
    expect(servicePortName(namespacedName(namespace, `${service}x`), port)).not.toBe(name);
  });
});
