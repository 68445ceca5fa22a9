import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import { NodeKernel } from '../../../../src/kernel/linux/node-kernel.ts';
import type { NftMessage } from '../../../../src/kernel/nftables/nft-message.ts';
import { nftablesKernelOf } from '../../../../src/kernel/nftables/nftables-kernel.ts';
import { planRules } from '../../../../src/plan/plan-rules.ts';
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
beforeEach(async () => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'performance'] });
  table = new FakeNftTable();
  refused = [];
  const commit = table.commit.bind(table);
  table.commit = async (...transaction) => {
    const refusal = await commit(...transaction);
    if (refusal !== undefined) refused.push(refusal.code);
    return refusal;
  };
  kernel = nftablesKernelOf(new NodeKernel({ log: new TestLog() }), table);
  await kernel.prepare();
  await kernel.ensureRules(RULES);
});
afterEach(async () => {
  await kernel.close();
  jest.useRealTimers();
});

/** Returns the transactions. */
async function apply(...ops: readonly Op[]): Promise<readonly (readonly NftMessage[])[]> {
  const before = table.committed.length;
  expect(await kernel.apply(new Transaction(ops))).toEqual({ failures: [] });
  return table.committed.slice(before);
}

async function aSecondLater(): Promise<void> {
  await jest.advanceTimersByTimeAsync(1_000);
  // It waits for its turn.
  await kernel.apply(new Transaction([]));
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
  test('an endpoint beyond the number is deleted a second later', async () => {
    await apply(...add(WEB, ...SERVERS.slice(0, 2)));
    await apply(remove(WEB, 1));
    expect(endpoints()).toBe(2);
    expect([...(await kernel.getRealServers([WEB])).values()].flat()).toHaveLength(1);
    await aSecondLater();
    expect(endpoints()).toBe(1);
    expect(refused).toEqual([]);
  });

  test('or before the next change, which may need its place', async () => {
    await apply(...add(WEB, ...SERVERS.slice(0, 2)));
    await apply(remove(WEB, 1));
    await apply(...add(WEB, SERVERS[2]!));
    expect([...(await kernel.getRealServers([WEB])).values()].flat().map(({ address: at }) => at)).toEqual([
      SERVERS[0]!.address,
      SERVERS[2]!.address,
    ]);
    await aSecondLater();
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
    await aSecondLater();
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
    await aSecondLater();
    expect([named(/^service-.*-of-/), named(/^endpoints-/), named(/^endpoint-/), named(/^clients-/)]).toEqual([
      2, 2, 3, 3,
    ]);
    await apply({ kind: 'delete-virtual-server', id: STICKY[1]! });
    await aSecondLater();
    expect([named(/^service-.*-of-/), named(/^endpoints-/), named(/^endpoint-/), named(/^clients-/)]).toEqual([
      1, 1, 2, 2,
    ]);
    expect(refused).toEqual([]);
    expect(await kernel.ensureRules(RULES)).toEqual({ changed: false, chains: [] });
  });

  test('while other programs change the ruleset, it stays until the next change', async () => {
    await apply(...add(WEB, ...SERVERS.slice(0, 2)));
    await apply(remove(WEB, 1));
    const lookUp = table.lookUp.bind(table);
    table.lookUp = async (...wanted) => {
      const findings = await lookUp(...wanted);
      table.changeByOthers(() => undefined);
      return findings;
    };
    await aSecondLater();
    expect(endpoints()).toBe(2);
    table.lookUp = lookUp;
    await apply({ kind: 'add-virtual-server', virtualServer: STICKY[0]! });
    expect(endpoints()).toBe(1);
  });
});
