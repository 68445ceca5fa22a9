import { describe, expect, test } from '@jest/globals';
import { servicePortName } from '../../../src/base/service/service-port-name.ts';
import { namespacedName } from '../../../src/base/service/names.ts';
import { rulesOfIpvsOnly, rulesToRemove } from '../../../src/plan/ipvs/plan-rules.ts';
import { JUMPS, SHARED_CHAINS, baseChains } from '../../../src/kernel/iptables-mode/render/node-chains.ts';

const SETTINGS = { masqueradeAll: false, masqueradeMark: 0x4000, randomFully: true };

describe('what is planned for iptables mode', () => {
  test('chains that both modes have are not removed with ipvs mode', () => {
    const ours = new Set([...SHARED_CHAINS, ...baseChains(SETTINGS)].map(({ table, name }) => `${table} ${name}`));
    const { chains, jumps } = rulesOfIpvsOnly(4);
    const labels = (list: typeof chains): string[] => list.map(({ table, name }) => `${table} ${name}`);
    const removed = new Set(labels(chains));
    const kept = labels(rulesToRemove(4).chains).filter((label) => !removed.has(label));
    expect(labels(chains).filter((label) => ours.has(label))).toEqual([]);
    expect(kept.filter((label) => !ours.has(label))).toEqual([]);
    for (const { table, from, to } of JUMPS) {
      expect(jumps.some((jump) => jump.table === table && jump.from === from && jump.to === to)).toBe(false);
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
