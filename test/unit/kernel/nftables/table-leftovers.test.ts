import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { IpFamily } from '../../../../src/base/ip.ts';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import { NodeKernel } from '../../../../src/kernel/linux/node-kernel.ts';
import { NO_MODE_OBSERVER } from '../../../../src/kernel/mode-observer.ts';
import type { NftMessage } from '../../../../src/kernel/nftables/port/nft-message.ts';
import { serviceKey } from '../../../../src/kernel/nftables/objects/keys.ts';
import { nftablesKernelOf } from '../../../../src/kernel/nftables/nftables-kernel.ts';
import { NFT_VERDICT } from '../../../../src/netlink/family/nf-tables/data.ts';
import { planRules } from '../../../../src/plan/ipvs/plan-rules.ts';
import type { Op } from '../../../../src/state/op.ts';
import { Transaction } from '../../../../src/state/transaction.ts';
import { VS_PERSISTENT, type VirtualServer } from '../../../../src/state/virtual-server.ts';
import { address, endpoint, realServer, virtualServer } from '../../../contract/objects.ts';
import { FakeNftTable } from '../../../fake-kernel/fake-nft-table.ts';
import { PLAN_CONFIG, TestLog } from '../../../support/reconciling.ts';

const RULES = planRules({ ...PLAN_CONFIG, scheduler: 'random' }, 4);
const WEB = virtualServer(address(4, 1), 80, 'TCP', { scheduler: 'random' });
const STICKY = [2, 3].map((n) =>
  virtualServer(address(4, n), 80, 'TCP', { scheduler: 'random', flags: VS_PERSISTENT, timeout: 60 }),
);
const SERVERS = [1, 2, 3].map((n) => realServer(endpoint(4, n), 8080));

let table: FakeNftTable;
let kernel: Kernel;
let refused: string[];
let failed: IpFamily[];
beforeEach(async () => {
  table = new FakeNftTable();
  refused = [];
  failed = [];
  const commit = table.commit.bind(table);
  table.commit = async (...transaction) => {
    const refusal = await commit(...transaction);
    if (refusal !== undefined) refused.push(refusal.code);
    return refusal;
  };
  const observer = { ...NO_MODE_OBSERVER, cleanUpFailed: (family: IpFamily) => failed.push(family) };
  kernel = nftablesKernelOf(new NodeKernel({ log: new TestLog() }), table, observer);
  await kernel.prepare();
  await kernel.ensureRules(RULES);
});
afterEach(async () => {
  await kernel.close();
});

/** Returns the transactions. */
async function apply(...ops: readonly Op[]): Promise<readonly (readonly NftMessage[])[]> {
  const before = table.committed.length;
  expect(await kernel.apply(new Transaction(ops))).toEqual({ failures: [] });
  return table.committed.slice(before);
}

/** A full check begins with the device. */
async function atFullCheck(): Promise<void> {
  expect(await kernel.ensureDevice()).toEqual({ made: false });
}

const add = (id: VirtualServer, ...servers: typeof SERVERS): readonly Op[] => [
  { kind: 'add-virtual-server', virtualServer: id },
  ...servers.map((server): Op => ({ kind: 'add-real-server', id, realServer: server })),
];
const remove = (id: VirtualServer, n: number): Op => ({ kind: 'delete-real-server', id, realServer: SERVERS[n]! });
const endpoints = (): number => table.tables.get(4)!.sets.get('service-endpoints')!.elements.size;
const named = (pattern: RegExp): number =>
  [...table.tables.get(4)!.sets.keys(), ...table.tables.get(4)!.chains.keys()].filter((name) => pattern.test(name))
    .length;
const kinds = (transactions: readonly (readonly NftMessage[])[]): readonly (readonly string[])[] =>
  transactions.map((messages) => [...new Set(messages.map(({ kind }) => kind))]);

describe('what a packet may need that came before a change', () => {
  test('an endpoint beyond the number is deleted by the next full check', async () => {
    await apply(...add(WEB, ...SERVERS.slice(0, 2)));
    await apply(remove(WEB, 1));
    expect(endpoints()).toBe(2);
    expect([...(await kernel.getRealServers([WEB])).values()].flat()).toHaveLength(1);
    await atFullCheck();
    expect(endpoints()).toBe(1);
    expect(refused).toEqual([]);
  });

  test('a refused deletion is counted, and tried again', async () => {
    await apply(...add(WEB, ...SERVERS.slice(0, 2)));
    await apply(remove(WEB, 1));
    table.refuse = () => 'EBUSY';
    await atFullCheck();
    expect([endpoints(), failed]).toEqual([2, [4]]);
    table.refuse = () => undefined;
    await atFullCheck();
    expect([endpoints(), failed]).toEqual([1, [4]]);
  });

  test('or before the next change, which may need its place', async () => {
    await apply(...add(WEB, ...SERVERS.slice(0, 2)));
    await apply(remove(WEB, 1));
    await apply(...add(WEB, SERVERS[2]!));
    expect([...(await kernel.getRealServers([WEB])).values()].flat().map(({ address: at }) => at)).toEqual([
      SERVERS[0]!.address,
      SERVERS[2]!.address,
    ]);
    await atFullCheck();
    expect(endpoints()).toBe(2);
    expect(refused).toEqual([]);
  });

  test('those of a virtual server that is gone are deleted with it', async () => {
    await apply(...add(WEB, ...SERVERS));
    await apply({ kind: 'delete-virtual-server', id: WEB });
    expect(endpoints()).toBe(0);
  });

  test('a chain exists before a virtual server moves to it, and the other one after that', async () => {
    await apply(...STICKY.flatMap((id) => add(id, ...SERVERS)));
    const transactions = await apply(...STICKY.map((id) => remove(id, 0)));
    expect(kinds(transactions)).toEqual([
      ['new-set', 'new-chain', 'new-rule', 'new-elements'],
      ['delete-elements', 'new-elements'],
    ]);
    expect([named(/^service-.*-of-/), named(/^endpoints-/), named(/^endpoint-/), named(/^clients-/)]).toEqual([
      2, 2, 3, 3,
    ]);
    // It is no difference.
    expect(await kernel.compareRules(RULES)).toMatchObject({ missing: [] });
    await atFullCheck();
    expect([named(/^service-.*-of-/), named(/^endpoints-/), named(/^endpoint-/), named(/^clients-/)]).toEqual([
      1, 1, 2, 2,
    ]);
    expect(refused).toEqual([]);
  });

  test('a chain that a number of endpoints needs anew exists before, too', async () => {
    await apply(...add(WEB, SERVERS[0]!));
    expect(kinds(await apply(...add(WEB, SERVERS[1]!)))).toEqual([
      ['new-chain', 'new-rule'],
      ['delete-elements', 'new-elements'],
    ]);
  });

  test('what another virtual server uses stays', async () => {
    await apply(...STICKY.flatMap((id) => add(id, ...SERVERS)));
    await apply(remove(STICKY[0]!, 0));
    await atFullCheck();
    expect([named(/^service-.*-of-/), named(/^endpoints-/), named(/^endpoint-/), named(/^clients-/)]).toEqual([
      2, 2, 3, 3,
    ]);
    await apply({ kind: 'delete-virtual-server', id: STICKY[1]! });
    await atFullCheck();
    expect([named(/^service-.*-of-/), named(/^endpoints-/), named(/^endpoint-/), named(/^clients-/)]).toEqual([
      1, 1, 2, 2,
    ]);
    expect(refused).toEqual([]);
    expect(await kernel.ensureRules(RULES)).toEqual({ changed: false, chains: [] });
  });

  /** Another program changes the ruleset after each read. Returns what ends it. */
  function disturb(): () => void {
    const lookUp = table.lookUp.bind(table);
    table.lookUp = async (...wanted) => {
      const findings = await lookUp(...wanted);
      table.changeByOthers(() => undefined);
      return findings;
    };
    return () => (table.lookUp = lookUp);
  }

  test('while other programs change the ruleset, it stays until the next change', async () => {
    await apply(...add(WEB, ...SERVERS.slice(0, 2)));
    await apply(remove(WEB, 1));
    const end = disturb();
    await atFullCheck();
    expect(endpoints()).toBe(2);
    end();
    await apply({ kind: 'add-virtual-server', virtualServer: STICKY[0]! });
    expect(endpoints()).toBe(1);
  });

  test('or until the next full check', async () => {
    await apply(...add(WEB, ...SERVERS.slice(0, 2)), ...STICKY.flatMap((id) => add(id, SERVERS[0]!)));
    await apply(remove(WEB, 1), ...STICKY.map((id): Op => ({ kind: 'delete-virtual-server', id })));
    const end = disturb();
    await atFullCheck();
    end();
    expect([endpoints(), named(/^endpoint-/)]).toEqual([2, 1]);
    await atFullCheck();
    expect([endpoints(), named(/^endpoint-/)]).toEqual([1, 0]);
  });

  test('one that is left twice is deleted once', async () => {
    await apply(...add(WEB, ...SERVERS.slice(0, 2)));
    await apply(remove(WEB, 1));
    const end = disturb();
    await apply({ kind: 'add-real-server', id: WEB, realServer: SERVERS[1]! });
    await apply(remove(WEB, 1));
    end();
    refused.length = 0;
    await atFullCheck();
    expect(endpoints()).toBe(1);
    expect(refused).toEqual([]);
  });

  test('endpoints that the kernel does not delete are tried again', async () => {
    await apply(...add(WEB, ...SERVERS.slice(0, 2)));
    await apply(remove(WEB, 1));
    table.refuse = () => 'ENOMEM';
    await atFullCheck();
    expect(endpoints()).toBe(2);
    table.refuse = () => undefined;
    await atFullCheck();
    expect(endpoints()).toBe(1);
  });

  test('chains that the kernel does not delete keep no endpoint', async () => {
    await apply(...add(WEB, ...SERVERS.slice(0, 2)), ...STICKY.flatMap((id) => add(id, SERVERS[0]!)));
    await apply(remove(WEB, 1), ...STICKY.map((id): Op => ({ kind: 'delete-virtual-server', id })));
    table.refuse = (messages) => (messages.some(({ kind }) => kind === 'delete-chain') ? 'EBUSY' : undefined);
    await atFullCheck();
    expect(endpoints()).toBe(1);
  });

  test('a process that stops before that deletes it', async () => {
    await apply(...add(WEB, ...SERVERS), ...add(STICKY[0]!, ...SERVERS));
    await apply(remove(WEB, 1), remove(STICKY[0]!, 1));
    expect([endpoints(), named(/^service-.*-of-/)]).toEqual([6, 2]);
    await kernel.close();
    expect([endpoints(), named(/^service-.*-of-/)]).toEqual([4, 1]);
    expect(refused).toEqual([]);
  });
});

describe('endpoints that a process left when it was killed', () => {
  const OTHERS = [10, 11, 12].map((n) => virtualServer(address(4, n), 80, 'TCP', { scheduler: 'random' }));

  async function leave(...others: readonly VirtualServer[]): Promise<void> {
    await apply(...add(WEB, ...SERVERS), ...others.flatMap((id) => add(id, SERVERS[0]!)));
    await apply(remove(WEB, 1), remove(WEB, 2));
    expect(endpoints()).toBe(3 + others.length);
  }

  async function restart(): Promise<void> {
    kernel = nftablesKernelOf(new NodeKernel({ log: new TestLog() }), table);
    await kernel.prepare();
    await kernel.ensureRules(RULES);
  }

  /** As a full check reads. */
  async function readAll(): Promise<void> {
    const found = await kernel.getVirtualServers();
    if (found.length > 0) await kernel.getRealServers(found);
  }

  test.each<readonly [string, readonly VirtualServer[]]>([
    ['a virtual server', []],
    ['one of several virtual servers', OTHERS],
  ])('%s are deleted before the first change, which then is one transaction', async (_of, others) => {
    await leave(...others);
    await restart();
    await readAll();
    const growth: Op = { kind: 'add-real-server', id: WEB, realServer: realServer(endpoint(4, 4), 8080) };
    const transactions = await apply(growth, ...add(STICKY[0]!, SERVERS[0]!));
    expect(transactions[0]!.map(({ kind }) => kind)).toEqual(['delete-elements']);
    expect(refused).toEqual([]);
    expect(endpoints()).toBe(2 + others.length + 1);
  });

  test.each([0, 1, 2])('are deleted without a change, too, also those of a virtual server that is gone', async (n) => {
    await leave(...OTHERS.slice(0, n));
    table.changeByOthers((found) => {
      const { elements } = found!.sets.get('service-ips')!;
      elements.delete(Buffer.from(serviceKey(WEB)).toString('hex'));
    });
    await restart();
    await readAll();
    await atFullCheck();
    expect(endpoints()).toBe(n);
    expect(refused).toEqual([]);
  });

  test('stay when a process only reads', async () => {
    await leave(...OTHERS);
    const reader = nftablesKernelOf(new NodeKernel({ log: new TestLog() }), table);
    const found = await reader.getVirtualServers();
    await reader.getRealServers(found);
    const before = table.committed.length;
    await reader.close();
    expect(table.committed).toHaveLength(before);
  });

  test('those of a virtual server that another program misled stay until it is repaired', async () => {
    await leave(...OTHERS);
    table.changeByOthers((found) => {
      const key = serviceKey(WEB);
      const data = { verdict: { code: NFT_VERDICT.drop } };
      found!.sets.get('service-ips')!.elements.set(Buffer.from(key).toString('hex'), { key, data });
    });
    await restart();
    await readAll();
    await atFullCheck();
    expect(endpoints()).toBe(3 + OTHERS.length);
    await apply({ kind: 'edit-virtual-server', virtualServer: WEB }, ...add(WEB, SERVERS[0]!).slice(1));
    await atFullCheck();
    expect(endpoints()).toBe(1 + OTHERS.length);
  });
});
