import { beforeEach, describe, expect, test } from '@jest/globals';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import { NFT_VERDICT } from '../../../../src/netlink/family/nf-tables/data.ts';
import { NodeKernel } from '../../../../src/kernel/linux/node-kernel.ts';
import { serviceKey } from '../../../../src/kernel/nftables/objects/keys.ts';
import type { NftMessage } from '../../../../src/kernel/nftables/port/nft-message.ts';
import { nftablesKernelOf } from '../../../../src/kernel/nftables/nftables-kernel.ts';
import { affinityMap, affinitySet } from '../../../../src/kernel/nftables/objects/sets.ts';
import {
  chooseIndex,
  goto,
  inSet,
  rememberClient,
  rule,
  translateTo,
} from '../../../../src/kernel/nftables/objects/steps.ts';
import { planRules } from '../../../../src/plan/ipvs/plan-rules.ts';
import type { Op } from '../../../../src/state/op.ts';
import { Transaction } from '../../../../src/state/transaction.ts';
import { VS_PERSISTENT, virtualServerKey } from '../../../../src/state/virtual-server.ts';
import { address, endpoint, realServer, virtualServer } from '../../../contract/objects.ts';
import { FakeNftTable } from '../../../fake-kernel/fake-nft-table.ts';
import { PLAN_CONFIG, TestLog } from '../../../support/reconciling.ts';

const RULES = planRules({ ...PLAN_CONFIG, scheduler: 'random' }, 4);
const sticky = { scheduler: 'random', flags: VS_PERSISTENT, timeout: 60 };
const ADDRESSES = [1, 2, 3, 4, 5].map((n) => virtualServer(address(4, n), 80, 'TCP', sticky));
const SERVERS = [1, 2, 3].map((n) => realServer(endpoint(4, n), 8080));

let table: FakeNftTable;
let kernel: Kernel;
let log: TestLog;
beforeEach(async () => {
  table = new FakeNftTable();
  await start();
});

async function start(): Promise<void> {
  log = new TestLog();
  kernel = nftablesKernelOf(new NodeKernel({ log }), table);
  await kernel.prepare();
  await kernel.ensureRules(RULES);
}

async function apply(...ops: readonly Op[]): Promise<readonly NftMessage[]> {
  const before = table.committed.length;
  expect(await kernel.apply(new Transaction(ops))).toEqual({ failures: [] });
  return table.committed.slice(before).flat();
}

function addAll(servers = SERVERS): readonly Op[] {
  return ADDRESSES.flatMap((id): Op[] => [
    { kind: 'add-virtual-server', virtualServer: id },
    ...servers.map((server): Op => ({ kind: 'add-real-server', id, realServer: server })),
  ]);
}

const kindsSince = (before: number): readonly (readonly string[])[] =>
  table.committed.slice(before).map((messages) => [...new Set(messages.map(({ kind }) => kind))]);
const sets = (): readonly string[] => [...table.tables.get(4)!.sets.keys()];
const chains = (): readonly string[] => [...table.tables.get(4)!.chains.keys()];
const count = (names: readonly string[], pattern: RegExp): number => names.filter((name) => pattern.test(name)).length;
const setCounts = (): readonly number[] => [count(sets(), /^clients-/), count(sets(), /^endpoints-/)];
const chainCounts = (): readonly number[] => [count(chains(), /^endpoint-/), count(chains(), /^service-.*-of-/)];

describe('session affinity', () => {
  test('the addresses of a service port share the chains and sets of its endpoints', async () => {
    await apply(...addAll());
    expect(setCounts()).toEqual([3, 1]);
    expect(chainCounts()).toEqual([3, 1]);
    expect(await kernel.ensureRules(RULES)).toEqual({ changed: false, chains: [] });
  });

  test('the order in which endpoints came does not matter', async () => {
    await apply(...addAll().slice(0, 4), ...addAll(SERVERS.toReversed()).slice(4));
    expect(setCounts()).toEqual([3, 1]);
    expect(chainCounts()).toEqual([3, 1]);
    expect(await kernel.ensureRules(RULES)).toEqual({ changed: false, chains: [] });
  });

  test('when an endpoint goes, the clients of the others stay, and one chain is written for all addresses', async () => {
    await apply(...addAll());
    const messages = await apply(
      ...ADDRESSES.map((id): Op => ({ kind: 'delete-real-server', id, realServer: SERVERS[0]! })),
    );
    const clients = messages.filter((each) => JSON.stringify(each).includes('"name":"clients-'));
    expect(clients).toEqual([]);
    // A rule for each remembered endpoint, and the choice of one.
    expect(messages.filter(({ kind }) => kind === 'new-rule')).toHaveLength(3);
    await kernel.ensureRules(RULES);
    await kernel.ensureRules(RULES);
    expect(setCounts()).toEqual([2, 1]);
    expect(chainCounts()).toEqual([2, 1]);
  });
});

describe('chains of session affinity that another program deleted', () => {
  async function lose(): Promise<void> {
    await apply(...addAll().slice(0, 4), { kind: 'add-virtual-server', virtualServer: ADDRESSES[1]! });
    table.changeByOthers((found) => {
      for (const name of found!.chains.keys()) {
        if (/^reject-chain|^service-.*-of-|^endpoint-/.test(name)) found!.chains.delete(name);
      }
    });
  }

  test('are written before what leads to them, with those to which they lead', async () => {
    await lose();
    const before = table.committed.length;
    expect(await kernel.ensureRules(RULES)).toMatchObject({ changed: true });
    expect(kindsSince(before)[0]).toEqual(['new-chain', 'new-rule']);
    expect(await kernel.compareRules(RULES)).toMatchObject({ missing: [] });
  });

  test('are written together with a chain that has another hook, to which something leads', async () => {
    await lose();
    const base = { type: 'nat', hook: 'prerouting', priority: 7 } as const;
    table.changeByOthers((found) => {
      found!.chains.set('services', { chain: { name: 'services', base, policy: 1 }, rules: [] });
    });
    const before = table.committed.length;
    expect(await kernel.ensureRules(RULES)).toMatchObject({ changed: true });
    expect(kindsSince(before)).toHaveLength(1);
    expect(await kernel.compareRules(RULES)).toMatchObject({ missing: [] });
  });
});

describe('chains and sets of virtual servers that another process left', () => {
  /** One endpoint each, so that they have a map and a set of clients each. */
  async function leave(services: number): Promise<void> {
    const ids = Array.from({ length: services }, (_, n) => virtualServer(address(4, n + 1), 80, 'TCP', sticky));
    await apply(
      ...ids.flatMap((id, n): Op[] => [
        { kind: 'add-virtual-server', virtualServer: id },
        { kind: 'add-real-server', id, realServer: realServer(endpoint(4, n + 1), 8080) },
      ]),
    );
    await apply(...ids.map((id): Op => ({ kind: 'delete-virtual-server', id })));
  }

  test('are deleted by as many checks as needed, at most 1,000 sets by each', async () => {
    await leave(600);
    expect(setCounts()).toEqual([600, 600]);
    const counts: unknown[] = [];
    // The first check is that of the start.
    await start();
    for (let check = 1; check <= 3; check++) {
      counts.push([...setCounts(), ...chainCounts()]);
      expect(await kernel.ensureRules(RULES)).toEqual({ changed: false, chains: [] });
    }
    expect(counts).toEqual([
      [200, 0, 0, 0],
      [0, 0, 0, 0],
      [0, 0, 0, 0],
    ]);
    expect(log.lines).toEqual([]);
  });

  test('stay, with what leads there, where another program uses them, and this is said once', async () => {
    await leave(20);
    const [used] = chains().filter((name) => name.startsWith('endpoint-'));
    table.changeByOthers((found) => {
      const element = { key: new Uint8Array(4), data: { verdict: { code: NFT_VERDICT.goto, chain: used! } } };
      found!.sets.set('theirs', { set: affinityMap('theirs'), elements: new Map([['00'.repeat(4), element]]) });
    });
    await start();
    for (let check = 1; check <= 3; check++) {
      expect([...setCounts(), ...chainCounts()]).toEqual([1, 0, 1, 0]);
      table.changeByOthers(() => undefined);
      expect(await kernel.ensureRules(RULES)).toEqual({ changed: false, chains: [] });
    }
    // The chain can be used: what it refers to is there.
    expect(table.tables.get(4)!.chains.get(used!)!.rules).toHaveLength(2);
    const clients = sets().find((name) => name.startsWith('clients-'));
    expect(log.lines).toEqual([
      expect.stringMatching(`^warn: cannot delete chain ${used}, set ${clients} of table ip kube-proxy.*: EBUSY`),
    ]);
  });
});

describe('a table of a version in which each address had chains and sets of its own', () => {
  const [id] = ADDRESSES;
  const of = (n: number): string => `10.96.0.1/tcp/80__10.244.0.${n}/8080`;
  const chain = (n: number): string => `endpoint-${of(n)}`.replaceAll('/', '_');
  const FIRST = 'service-10.96.0.1/tcp/80-of-2-for-60s';

  async function earlier(): Promise<void> {
    await apply(
      { kind: 'add-virtual-server', virtualServer: { ...id!, flags: 0, timeout: 0 } },
      ...[1, 2].map((n): Op => ({ kind: 'add-real-server', id: id!, realServer: SERVERS[n - 1]! })),
    );
    table.changeByOthers((found) => {
      for (const n of [1, 2]) {
        const clients = affinitySet(`clients-${of(n)}`, 60, 4);
        found!.sets.set(clients.name, { set: clients, elements: new Map() });
        const rules = [rememberClient(clients.name, 60, 4), translateTo('TCP', SERVERS[n - 1]!)];
        found!.chains.set(chain(n), { chain: { name: chain(n), policy: undefined }, rules });
      }
      const map = affinityMap('endpoints-10.96.0.1/tcp/80');
      found!.sets.set(map.name, { set: map, elements: new Map() });
      const remembered = [1, 2].map((n) => rule(inSet(`clients-${of(n)}`, 'service-and-source', 4), goto(chain(n))));
      const rules = [...remembered, chooseIndex(map.name, 2)];
      found!.chains.set(FIRST, { chain: { name: FIRST, policy: undefined }, rules });
      const key = serviceKey(id!);
      const data = { verdict: { code: NFT_VERDICT.goto, chain: FIRST } };
      found!.sets.get('service-ips')!.elements.set(Buffer.from(key).toString('hex'), { key, data });
    });
  }

  test('is adopted, and converted by the first check of the rules', async () => {
    await earlier();
    expect(await kernel.getVirtualServers()).toEqual([id]);
    const [servers] = (await kernel.getRealServers([id!])).values();
    expect(servers).toHaveLength(2);
    const before = table.committed.length;
    expect(await kernel.ensureRules(RULES)).toMatchObject({ changed: true });
    // A packet that comes in between finds the new chain with its rules.
    expect(kindsSince(before)).toEqual([
      ['new-set', 'new-chain', 'new-rule', 'new-elements'],
      ['delete-elements', 'new-elements'],
    ]);
    expect(chains()).toContain(FIRST);
    expect(await kernel.ensureRules(RULES)).toEqual({ changed: false, chains: [] });
    expect(await kernel.ensureRules(RULES)).toEqual({ changed: false, chains: [] });
    const names = [...sets(), ...chains()].filter((name) => name.includes('10.96.0.1/') || name.includes('10.96.0.1_'));
    expect(names).toEqual([]);
    expect((await kernel.getRealServers([id!])).get(virtualServerKey(id!))).toHaveLength(2);
  });

  test('is converted in the end if another program changes the ruleset in between', async () => {
    await earlier();
    const commit = table.commit.bind(table);
    const refused: string[] = [];
    table.commit = async (family, messages, generation) => {
      const refusal = await commit(family, messages, generation);
      if (refusal !== undefined) refused.push(refusal.code);
      else if (messages.some(({ kind }) => kind === 'new-chain')) table.changeByOthers(() => undefined);
      return refusal;
    };
    expect(await kernel.ensureRules(RULES)).toMatchObject({ changed: true });
    expect(refused).toEqual(['ERESTART']);
    expect(await kernel.compareRules(RULES)).toMatchObject({ missing: [] });
  });

  test('a change before that check converts what it changes', async () => {
    await earlier();
    await apply({ kind: 'delete-real-server', id: id!, realServer: SERVERS[0]! });
    expect(await kernel.getVirtualServers()).toEqual([id]);
    const [servers] = (await kernel.getRealServers([id!])).values();
    expect(servers).toHaveLength(1);
    await kernel.ensureRules(RULES);
    expect(chains()).not.toContain(FIRST);
  });
});
