import { describe, expect, test } from '@jest/globals';
import { IP_FAMILIES, parseIp } from '../../../../src/base/ip.ts';
import type { Port } from '../../../../src/base/port.ts';
import type { NftElement } from '../../../../src/netlink/family/nf-tables/element.ts';
import { NFT_VERDICT } from '../../../../src/netlink/family/nf-tables/data.ts';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import { NodeKernel } from '../../../../src/kernel/linux/node-kernel.ts';
import { nftablesKernelOf } from '../../../../src/kernel/nftables/nftables-kernel.ts';
import { serviceKey } from '../../../../src/kernel/nftables/objects/keys.ts';
import { affinityChainName } from '../../../../src/kernel/nftables/objects/affinity-chains.ts';
import { affinityMap } from '../../../../src/kernel/nftables/objects/sets.ts';
import { jump } from '../../../../src/kernel/nftables/objects/steps.ts';
import { planRules } from '../../../../src/plan/ipvs/plan-rules.ts';
import { setName } from '../../../../src/state/set-roles.ts';
import type { VirtualServerId } from '../../../../src/state/virtual-server.ts';
import { address } from '../../../contract/objects.ts';
import { FakeNftTable } from '../../../fake-kernel/fake-nft-table.ts';
import { listed, service, slice } from '../../../support/objects.ts';
import { MODE_PLANS } from '../../../../src/plan/mode-plans.ts';
import { PLAN_CONFIG, Reconciling, TestLog } from '../../../support/reconciling.ts';

const CONFIG = { ...PLAN_CONFIG, ...MODE_PLANS.nftables };
const STICKY = service('sticky', '10.96.0.10', { sessionAffinity: 'ClientIP' });
const ENDPOINTS = ['10.244.0.5', '10.244.0.6', '10.244.0.7'];
const OTHER_ENDPOINTS = ['10.244.0.8', '10.244.0.9', '10.244.0.10'];
const CLUSTER = listed(
  [STICKY, service('empty', '10.96.0.11'), service('other', '10.96.0.12', { sessionAffinity: 'ClientIP' })],
  [slice('sticky', ENDPOINTS), slice('other', OTHER_ENDPOINTS)],
);
const [STICKY_ID, EMPTY_ID, OTHER_ID] = [10, 11, 12].map((n) => ({
  address: address(4, n),
  protocol: 'TCP',
  port: 80 as Port,
})) as [VirtualServerId, VirtualServerId, VirtualServerId];

async function start(
  table: FakeNftTable,
): Promise<{ readonly kernel: Kernel; readonly log: TestLog; readonly run: Reconciling }> {
  const log = new TestLog();
  const kernel = nftablesKernelOf(new NodeKernel({ log }), table);
  Object.assign(kernel, { getNodeAddresses: () => Promise.resolve([]), getUdpFlows: () => Promise.resolve([]) });
  await kernel.prepare();
  return { kernel, log, run: new Reconciling(kernel, { plan: CONFIG }) };
}

/** Our table, as a daemon leaves it when it stops. */
async function left(): Promise<FakeNftTable> {
  const table = new FakeNftTable();
  const { run } = await start(table);
  await run.settle(...CLUSTER);
  await run.reconciler.stop();
  return table;
}

describe('a table of ours that another program damaged', () => {
  test.each([1, 3])('%i endpoints of a Service with session affinity are restored by a first sync', async (gone) => {
    const table = await left();
    table.changeByOthers((found) => {
      const { elements } = found!.sets.get('service-endpoints')!;
      for (const key of [...elements.keys()].slice(0, gone)) elements.delete(key);
    });
    const { kernel, run } = await start(table);
    expect(await run.settle(...CLUSTER)).toMatchObject({ kind: 'first', ok: true, failures: [] });
    expect(table.tables.get(4)!.sets.get('service-endpoints')!.elements.size).toBe(6);
    expect(await kernel.compareRules(planRules(CONFIG, 4))).toMatchObject({ missing: [] });
    await run.reconciler.stop();
  });

  /** What leads packets elsewhere: the kernel finds it for every key that has no element, or for one key. */
  const EVERY_OTHER = new Uint8Array();
  const REJECTED = { verdict: { code: NFT_VERDICT.goto, chain: 'reject-chain' } };
  const DROPPED = { verdict: { code: NFT_VERDICT.drop } };

  function addElement(table: FakeNftTable, set: string, element: NftElement): void {
    const key = Buffer.from(element.key).toString('hex');
    table.changeByOthers((found) => found!.sets.get(set)!.elements.set(key, element));
  }

  /** The elements of the table, without those of service-endpoints beyond the number of endpoints. */
  function elementsOf(table: FakeNftTable): readonly string[] {
    const sets = [...table.tables.get(4)!.sets.values()];
    return sets
      .flatMap(({ set, elements }) =>
        Array.from(elements, ([key, { data }]) => `${set.name} ${key} ${JSON.stringify(data)}`),
      )
      .toSorted();
  }

  const OF_STICKY = affinityChainName({
    family: 4,
    protocol: 'TCP',
    endpoints: ENDPOINTS.map((each) => ({ address: parseIp(each)!, port: 8080 as Port })),
    seconds: 10_800,
  });
  const PORT_0 = { ...STICKY_ID, port: 0 as Port };
  test.each<readonly [string, string, NftElement]>([
    ['every other service port', 'service-ips', { key: EVERY_OTHER, data: DROPPED }],
    ['every other service port without endpoints', 'no-endpoint-services', { key: EVERY_OTHER, data: REJECTED }],
    ['every other load balancer IP', 'firewall-ips', { key: EVERY_OTHER, data: DROPPED }],
    ['every other address', 'cluster-ips', { key: EVERY_OTHER }],
    ['a port that no Service can have', 'service-ips', { key: serviceKey(PORT_0), data: DROPPED }],
    ['a port of no Service', 'service-ips', { key: serviceKey({ ...STICKY_ID, port: 81 as Port }), data: DROPPED }],
    ['a Service with endpoints', 'service-ips', { key: serviceKey(STICKY_ID), data: DROPPED }],
    ['a Service without endpoints', 'no-endpoint-services', { key: serviceKey(EMPTY_ID), data: DROPPED }],
    [
      'a Service with endpoints to those of another one',
      'service-ips',
      {
        key: serviceKey(OTHER_ID),
        data: { verdict: { code: NFT_VERDICT.goto, chain: OF_STICKY } },
      },
    ],
  ])('an element that misleads %s is repaired by a first sync and by a full check', async (_of, set, element) => {
    const table = await left();
    const before = elementsOf(table);
    const { kernel, run } = await start(table);
    for (const kind of ['first', 'full'] as const) {
      addElement(table, set, element);
      expect(elementsOf(table)).not.toEqual(before);
      const synced = kind === 'first' ? run.settle(...CLUSTER) : run.pass(30_000);
      expect(await synced).toMatchObject({ kind, ok: true, failures: [] });
      await new Promise((resolve) => setImmediate(resolve));
      expect(elementsOf(table)).toEqual(before);
      expect(await kernel.compareRules(planRules(CONFIG, 4))).toMatchObject({ missing: [] });
    }
    await run.reconciler.stop();
  });

  test('a table that is dormant is woken when everything in it is right', async () => {
    const table = await left();
    const { kernel, run } = await start(table);
    for (const kind of ['first', 'full'] as const) {
      table.changeByOthers((found) => {
        found!.dormant = true;
        found!.chains.get('services')!.rules.length = 0;
      });
      expect(await kernel.compareRules(planRules(CONFIG, 4))).toMatchObject({
        missing: expect.arrayContaining([{ command: expect.stringContaining('add table ip kube-proxy') }]),
      });
      const synced = kind === 'first' ? run.settle(...CLUSTER) : run.pass(30_000);
      expect(await synced).toMatchObject({ kind, ok: true, failures: [] });
      await new Promise((resolve) => setImmediate(resolve));
      expect(table.tables.get(4)).toMatchObject({ dormant: false });
      expect(table.committed.at(-1)).toEqual([{ kind: 'new-table' }]);
      expect(await kernel.compareRules(planRules(CONFIG, 4))).toMatchObject({ missing: [] });
    }
    await run.reconciler.stop();
  });

  test('one that cannot be read does not stop those of the other IP family', async () => {
    const table = await left();
    const eachElement = table.eachElement.bind(table);
    table.eachElement = (family, ...asked) =>
      family === 4 ? Promise.reject(new Error('an attribute is missing')) : eachElement(family, ...asked);
    const { run } = await start(table);
    const six = [service('six', 'fd00::6'), slice('six', ['fd01::6'])] as const;
    const events = [...CLUSTER, ...listed([STICKY, six[0]], [six[1]])];
    expect(await run.take(...events)).toMatchObject({ kind: 'first', ok: false, failures: [] });
    expect(table.tables.get(6)!.sets.get('service-ips')!.elements.size).toBe(1);
    await run.reconciler.stop();
  });

  test('one whose sets cannot be read is not asked for those of the other IP family', async () => {
    const table = await left();
    const { kernel } = await start(table);
    const eachElement = table.eachElement.bind(table);
    table.eachElement = (family, ...asked) =>
      family === 6 ? Promise.reject(new Error('an attribute is missing')) : eachElement(family, ...asked);
    const [name, of6] = IP_FAMILIES.map((family) => setName('IPVS-IPS', family)) as [string, string];
    expect(await kernel.getSets([name])).toMatchObject([{ name, entries: [{}, {}, {}] }]);
    expect([...(await kernel.findSets([name])).keys()]).toEqual([name]);
    await expect(kernel.getSets([of6])).rejects.toThrow('an attribute is missing');
    await expect(kernel.findSets([of6])).rejects.toThrow('an attribute is missing');
  });

  /** A chain that nothing deletes, because an element of another program's map leads to it; one that may be deleted. */
  function addForeignChains(table: FakeNftTable): void {
    table.changeByOthers((found) => {
      const { chains, sets } = found!;
      const verdict = { code: NFT_VERDICT.goto, chain: 'held' };
      const element = { key: new Uint8Array(4), data: { verdict } };
      sets.set('theirs', { set: affinityMap('theirs'), elements: new Map([['00'.repeat(4), element]]) });
      for (const name of ['held', 'loose']) {
        chains.set(name, { chain: { name, policy: undefined }, rules: [jump('services')] });
      }
      chains.get('nat-prerouting')!.rules.length = 0;
    });
  }

  test('a chain that cannot be deleted keeps none from being restored, and no other from being deleted', async () => {
    const table = await left();
    addForeignChains(table);
    const { kernel, run, log } = await start(table);
    expect(await run.settle(...CLUSTER)).toMatchObject({ kind: 'first', ok: true, failures: [] });
    const { chains } = table.tables.get(4)!;
    expect(chains.get('nat-prerouting')!.rules).toHaveLength(1);
    expect(chains.has('loose')).toBe(false);
    // Nothing that it did is done any longer.
    expect(chains.get('held')).toMatchObject({ rules: [] });
    expect(await kernel.compareRules(planRules(CONFIG, 4))).toMatchObject({
      missing: [{ command: "nft 'delete chain ip kube-proxy held'" }],
    });
    const warnings = (): readonly string[] => log.lines.filter((line) => line.includes('chain held'));
    expect(warnings()).toEqual([
      expect.stringMatching(/^warn: cannot delete chain held of table ip kube-proxy.*: EBUSY/),
    ]);
    // It is no drift, and said once.
    for (let times = 0; times < 2; times++) {
      table.changeByOthers(() => undefined);
      expect(await kernel.ensureRules(planRules(CONFIG, 4))).toEqual({ changed: false, chains: [] });
    }
    expect(warnings()).toHaveLength(1);
    table.changeByOthers((found) => found!.sets.delete('theirs'));
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toEqual({ changed: true, chains: ['held'] });
    expect(table.tables.get(4)!.chains.has('held')).toBe(false);
    await run.reconciler.stop();
  });
});
