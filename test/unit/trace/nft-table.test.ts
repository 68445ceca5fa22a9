import { describe, expect, test } from '@jest/globals';
import type { Service } from '../../../src/kube/objects/objects.ts';
import { FakeNftTable } from '../../fake-kernel/fake-nft-table.ts';
import { type RulesPlane, iptablesPlane, nftablesPlane } from '../../fake-kernel/planes.ts';
import type { NftPort } from '../../../src/kernel/nftables/port/nft-port.ts';
import { rulesetOfTable } from '../../trace/nft-table.ts';
import type { Ruleset } from '../../trace/ruleset.ts';
import { MODE_PLANS } from '../../../src/plan/mode-plans.ts';
import { startOn } from '../../support/on-plane.ts';
import { endpoint, listed, port, service, slice } from '../../support/objects.ts';
import { PLAN_CONFIG, Reconciling } from '../../support/reconciling.ts';
import { ends, packet } from './tracing.ts';

const DETECTOR = { kind: 'interface-prefix', prefix: 'veth' } as const;

const SERVICE = service('web', '10.96.0.1', {
  type: 'LoadBalancer',
  ports: [port(80, { nodePort: 30_080 })],
  loadBalancerIngress: [{ ip: '203.0.113.3' }],
  loadBalancerSourceRanges: ['198.51.100.0/24'],
  sessionAffinity: 'ClientIP',
  affinityTimeoutSeconds: 600,
});
const SLICE = slice('web', [
  endpoint('10.244.0.1', { nodeName: 'node-a' }),
  endpoint('10.244.1.2', { nodeName: 'node-b' }),
]);

async function rulesetOn(plane: RulesPlane, of: Service, endpoints = [SLICE]): Promise<Ruleset> {
  const { kernel } = await startOn(plane);
  const plan = { ...PLAN_CONFIG, ...MODE_PLANS[kernel.mode], localDetectors: { 4: DETECTOR } };
  const run = new Reconciling(kernel, { plan }, []);
  await run.settle(...listed([of], endpoints));
  await run.reconciler.stop();
  return await plane.rulesetOf(4);
}

describe.each([
  ['nftables', nftablesPlane],
  ['iptables', iptablesPlane],
])('tracing our rules in %s mode', (mode, plane) => {
  const rulesetOf = (of: Service, endpoints = [SLICE]) => rulesetOn(plane(), of, endpoints);

  test('each way to a Service', async () => {
    const rules = await rulesetOf(SERVICE);
    const plain = {
      'translated to 10.244.0.1:8080, affinity 600s': 0.5,
      'translated to 10.244.1.2:8080, affinity 600s': 0.5,
    };
    // Table filter of iptables accepts what is marked.
    const marked = mode === 'iptables' ? ', masqueraded, accepted' : ', masqueraded';
    const masqueraded = Object.fromEntries(
      Object.entries(plain).map(([text, value]) => [text.replace(',', `${marked},`), value]),
    );
    expect(ends(rules, packet('10.244.0.9', '10.96.0.1:80', { through: 'veth1' }))).toEqual(plain);
    expect(ends(rules, packet('198.51.100.9', '10.96.0.1:80'))).toEqual(masqueraded);
    expect(ends(rules, packet('198.51.100.9', '203.0.113.3:80'))).toEqual(masqueraded);
    expect(ends(rules, packet('203.0.113.9', '203.0.113.3:80'))).toEqual({ dropped: 1 });
    expect(ends(rules, packet('203.0.113.9', '192.168.9.1:30080'))).toEqual(masqueraded);
    expect(ends(rules, packet('192.168.9.1', '192.168.9.1:30080', { through: '' }))).toMatchObject(
      Object.fromEntries(Object.entries(masqueraded).map(([text, value]) => [text.replace(', accepted', ''), value])),
    );
    expect(ends(rules, packet('203.0.113.9', '192.168.9.1:30081'))).toEqual({ here: 1 });
    expect(ends(rules, packet('203.0.113.9', '203.0.113.3:81'))).toEqual({ forwarded: 1 });
    expect(ends(rules, packet('203.0.113.9', '10.96.0.1:81'))).toEqual(
      mode === 'nftables' ? { rejected: 1 } : { forwarded: 1 },
    );
  });

  test('a Pod that is its own endpoint, and a Service without endpoints', async () => {
    const plain = service('web', '10.96.0.1');
    const hairpin = ends(await rulesetOf(plain), packet('10.244.0.1', '10.96.0.1:80', { through: 'veth1' }));
    expect(Object.keys(hairpin).map((text) => text.replace(', accepted', ''))).toEqual([
      'translated to 10.244.0.1:8080, masqueraded',
      'translated to 10.244.1.2:8080',
    ]);
    const none = await rulesetOf(plain, []);
    expect(ends(none, packet('10.244.0.1', '10.96.0.1:80', { through: 'veth1' }))).toEqual({ rejected: 1 });
    expect(ends(none, packet('192.168.9.1', '10.96.0.1:80', { through: '' }))).toEqual({ rejected: 1 });
  });
});

describe('tracing our tables', () => {
  test('an expression that is not known is refused', async () => {
    const table = new FakeNftTable();
    await startOn(nftablesPlane(table));
    const of = (expression: object): NftPort =>
      Object.assign(Object.create(table) as NftPort, {
        chains: () => Promise.resolve([{ name: 'c' }]),
        rules: () => Promise.resolve([{ chain: 'c', expressions: [expression] }]),
      });
    await expect(rulesetOfTable(of({ name: 'other', of: 'quota' }), 4)).rejects.toThrow('unknown expression quota');
    await expect(rulesetOfTable(of({ name: 'meta', destination: 1, key: 99 }), 4)).rejects.toThrow('unknown meta 99');
    await expect(rulesetOfTable(of({ name: 'lookup', set: 'x', source: 1 }), 4)).rejects.toThrow('no set x');
    await expect(rulesetOfTable(of({ name: 'cmp', source: 1, operation: 3, data: {} }), 4)).rejects.toThrow(
      'unknown comparison 3',
    );
  });
});
