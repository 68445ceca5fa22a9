import { describe, expect, test } from '@jest/globals';
import type { Kernel } from '../../../../src/kernel/kernel.ts';
import { NodeKernel } from '../../../../src/kernel/linux/node-kernel.ts';
import { MOST_ELEMENTS, type NftMessage } from '../../../../src/kernel/nftables/port/nft-message.ts';
import { nftablesKernelOf } from '../../../../src/kernel/nftables/nftables-kernel.ts';
import { planRules } from '../../../../src/plan/ipvs/plan-rules.ts';
import { addressTraits } from '../../../../src/state/address-traits.ts';
import type { Op } from '../../../../src/state/op.ts';
import { Transaction } from '../../../../src/state/transaction.ts';
import { VS_PERSISTENT, type VirtualServer } from '../../../../src/state/virtual-server.ts';
import { address, realServer, virtualServer } from '../../../contract/objects.ts';
import { FakeNftTable } from '../../../fake-kernel/fake-nft-table.ts';
import { PLAN_CONFIG, TestLog } from '../../../support/reconciling.ts';

type Committed = readonly NftMessage[];

const RULES = planRules({ ...PLAN_CONFIG, scheduler: 'random' }, 4);

async function prepared(): Promise<{ readonly table: FakeNftTable; readonly kernel: Kernel }> {
  const table = new FakeNftTable();
  const kernel = nftablesKernelOf(new NodeKernel({ log: new TestLog() }), table);
  await kernel.prepare();
  await kernel.ensureRules(RULES);
  table.committed.length = 0;
  return { table, kernel };
}

function serverAt(n: number): VirtualServer {
  return virtualServer(address(4, n), 80, 'TCP', { scheduler: 'random', traits: addressTraits('cluster', true) });
}

/** Adds a virtual server with so many endpoints. */
function additions(n: number, count: number): Op[] {
  const id = serverAt(n);
  return [
    { kind: 'add-virtual-server', virtualServer: id },
    ...endpointsOf(count).map((server): Op => ({ kind: 'add-real-server', id, realServer: server })),
  ];
}

const endpointsOf = (count: number, first = 0) =>
  Array.from({ length: count }, (_, n) => realServer(((10 << 24) | (1 << 20) | (first + n)) as never, 8080));

function sizes(committed: readonly Committed[]): readonly number[] {
  const sizeOf = (message: NftMessage): number => ('elements' in message ? message.elements.size : 1);
  return committed.map((messages) => messages.reduce((sum, message) => sum + sizeOf(message), 0));
}

/** The transactions that change a set. */
function changesOf(set: string, committed: readonly Committed[]): readonly number[] {
  return committed.flatMap((messages, at) => (messages.some((each) => 'set' in each && each.set === set) ? [at] : []));
}

describe('a transaction has a limited number of elements', () => {
  test.each<[string, (table: FakeNftTable) => void]>([
    [
      'the rules of all chains of session affinity',
      (table) => {
        table.changeByOthers((found) => {
          for (const { rules } of found!.chains.values()) rules.length = 0;
        });
      },
    ],
    [
      'the chains and sets of their endpoints',
      (table) => {
        table.changeByOthers((found) => {
          for (const { rules } of found!.chains.values()) rules.length = 0;
          for (const name of found!.chains.keys()) if (name.startsWith('endpoint-')) found!.chains.delete(name);
          for (const [name, { elements }] of found!.sets) {
            if (name.startsWith('clients-')) found!.sets.delete(name);
            else if (name.startsWith('endpoints-')) elements.clear();
          }
        });
      },
    ],
  ])('also one that repairs %s', async (_what, damage) => {
    const { table, kernel } = await prepared();
    const sticky = { ...serverAt(1), flags: VS_PERSISTENT, timeout: 60 };
    const ops: Op[] = [
      { kind: 'add-virtual-server', virtualServer: sticky },
      ...endpointsOf(3_000).map((server): Op => ({ kind: 'add-real-server', id: sticky, realServer: server })),
    ];
    expect(await kernel.apply(new Transaction(ops))).toEqual({ failures: [] });
    expect(await kernel.compareRules(RULES)).toMatchObject({ missing: [] });
    damage(table);
    table.committed.length = 0;
    expect(await kernel.ensureRules(RULES)).toMatchObject({ changed: true });
    expect(table.committed.length).toBeGreaterThan(1);
    expect(Math.max(...sizes(table.committed))).toBeLessThanOrEqual(MOST_ELEMENTS);
    // The rules of a chain are written together.
    for (const messages of table.committed) {
      const flushed = new Set(messages.flatMap((each) => (each.kind === 'flush-chain' ? [each.name] : [])));
      const written = new Set(messages.flatMap((each) => (each.kind === 'new-rule' ? [each.chain] : [])));
      for (const name of flushed) expect(written.has(name)).toBe(true);
    }
    expect(await kernel.compareRules(RULES)).toMatchObject({ missing: [] });
    await kernel.close();
  });

  test('whatever is written: 30 virtual servers with 1,000 endpoints each', async () => {
    const { table, kernel } = await prepared();
    const ops = Array.from({ length: 30 }, (_, n) => additions(n + 1, 1_000)).flat();
    expect(await kernel.apply(new Transaction(ops))).toEqual({ failures: [] });
    expect(table.committed.length).toBeLessThanOrEqual(5);
    expect(Math.max(...sizes(table.committed))).toBeLessThanOrEqual(MOST_ELEMENTS);
    const found = await kernel.getRealServers(Array.from({ length: 30 }, (_, n) => serverAt(n + 1)));
    expect([...found.values()].map(({ length }) => length)).toEqual(Array.from({ length: 30 }, () => 1_000));
    // What marks packets comes into force with the virtual server.
    expect(changesOf('cluster-ip-ports', table.committed)).toEqual(changesOf('service-ips', table.committed));
    table.committed.length = 0;
    const deletions = Array.from({ length: 30 }, (_, n): Op => ({
      kind: 'delete-virtual-server',
      id: serverAt(n + 1),
    }));
    expect(await kernel.apply(new Transaction(deletions))).toEqual({ failures: [] });
    expect(Math.max(...sizes(table.committed))).toBeLessThanOrEqual(MOST_ELEMENTS);
    expect(table.tables.get(4)!.sets.get('service-endpoints')!.elements.size).toBe(0);
    await kernel.close();
  });

  test('each part of a transaction is read once', async () => {
    const { table, kernel } = await prepared();
    let exchanges = 0;
    const lookUp = table.lookUp.bind(table);
    table.lookUp = async (...wanted) => {
      exchanges += 1;
      return await lookUp(...wanted);
    };
    const ids = Array.from({ length: 30 }, (_, n) => serverAt(n + 1));
    await kernel.findVirtualServers(ids);
    await kernel.getRealServers(ids);
    exchanges = 0;
    const ops = ids.flatMap((_, n) => additions(n + 1, 1_000));
    expect(await kernel.apply(new Transaction(ops))).toEqual({ failures: [] });
    // Whether the chain exists to which they lead.
    expect(exchanges).toBe(1);
    await kernel.close();
  });

  test('a virtual server with more endpoints leads to them when all are there, and to none when they go', async () => {
    const { table, kernel } = await prepared();
    const count = 20_000;
    expect(await kernel.apply(new Transaction(additions(1, count)))).toEqual({ failures: [] });
    expect(Math.max(...sizes(table.committed))).toBeLessThanOrEqual(MOST_ELEMENTS);
    expect(changesOf('service-endpoints', table.committed)).toEqual([1, 2, 3, 4, 5]);
    expect(changesOf('service-ips', table.committed)).toEqual([6]);
    expect([...(await kernel.getRealServers([serverAt(1)])).values()][0]).toHaveLength(count);

    table.committed.length = 0;
    const id = serverAt(1);
    const others: Op[] = [
      ...endpointsOf(count).map((server): Op => ({ kind: 'delete-real-server', id, realServer: server })),
      ...endpointsOf(count - 1, count).map((server): Op => ({ kind: 'add-real-server', id, realServer: server })),
    ];
    expect(await kernel.apply(new Transaction(others))).toEqual({ failures: [] });
    expect(Math.max(...sizes(table.committed))).toBeLessThanOrEqual(MOST_ELEMENTS);
    expect([...(await kernel.getRealServers([id])).values()][0]).toHaveLength(count - 1);

    table.committed.length = 0;
    expect(await kernel.apply(new Transaction([{ kind: 'delete-virtual-server', id }]))).toEqual({ failures: [] });
    expect(Math.max(...sizes(table.committed))).toBeLessThanOrEqual(MOST_ELEMENTS);
    const last = changesOf('service-ips', table.committed);
    expect(changesOf('service-endpoints', table.committed).filter((at) => at > last[0]!)).toHaveLength(3);
    expect(table.tables.get(4)!.sets.get('service-endpoints')!.elements.size).toBe(0);
    await kernel.close();
  });

  test('endpoints that a change has left are deleted in parts', async () => {
    const { table, kernel } = await prepared();
    const count = 20_000;
    await kernel.apply(new Transaction(additions(1, count)));
    const id = serverAt(1);
    const gone = endpointsOf(count - 1).map((server): Op => ({ kind: 'delete-real-server', id, realServer: server }));
    expect(await kernel.apply(new Transaction(gone))).toEqual({ failures: [] });
    table.committed.length = 0;
    await kernel.close();
    expect(sizes(table.committed)).toEqual([8_192, 8_192, 3_615]);
  });
});
