import { describe, expect, test } from '@jest/globals';
import type { NodeAddress } from '../../../../src/kernel/kernel.ts';
import { planRules } from '../../../../src/plan/ipvs/plan-rules.ts';
import type { Op } from '../../../../src/state/op.ts';
import { Transaction } from '../../../../src/state/transaction.ts';
import { VS_PERSISTENT, virtualServerKey } from '../../../../src/state/virtual-server.ts';
import { FakeEngine } from '../../../fake-kernel/fake-engine.ts';
import { FakeNftTable } from '../../../fake-kernel/fake-nft-table.ts';
import { type RulesPlane, nftablesPlane, userspacePlane } from '../../../fake-kernel/planes.ts';
import { address, endpoint, realServer } from '../../../contract/objects.ts';
import { planIn, planeContract, serve, serverIn } from '../../../contract/plane-contract.ts';
import { address as ip } from '../../../support/state.ts';

planeContract('userspace', () => {
  const { kernel } = userspacePlane();
  return Promise.resolve({
    kernel,
    // No other process knows what the engine of this one has.
    reader: () => Promise.resolve(kernel),
    [Symbol.asyncDispose]: () => kernel.close(),
  });
});

const WEB = serverIn('userspace', address(4, 10), 80);
const DNS = serverIn('userspace', address(4, 11), 53, 'UDP');
const SERVERS = [1, 2].map((n) => realServer(endpoint(4, n), 8080));

function nodeAddress(text: string): NodeAddress {
  return { address: ip(text), prefix: 24, interfaceName: 'eth0', tentative: false };
}

async function started(
  plane: RulesPlane,
  nodeAddresses: readonly string[] = ['192.168.9.1'],
): Promise<(...ops: readonly Op[]) => Promise<unknown>> {
  plane.node.setNodeAddresses(nodeAddresses.map(nodeAddress));
  await plane.kernel.prepare();
  await plane.kernel.ensureRules(planRules(planIn('userspace'), 4));
  return async (...ops) => await plane.kernel.apply(new Transaction(ops));
}

/** Where the table leads to, as another mode reads it. */
async function targets(table: FakeNftTable, ids = [WEB, DNS]): Promise<string[]> {
  const found = await nftablesPlane(table).kernel.getRealServers(ids);
  return ids.flatMap((id) =>
    (found.get(virtualServerKey(id)) ?? []).map((server) => `${server.address.toString(16)} ${server.port}`),
  );
}

const ALL = [...serve(WEB, SERVERS), ...serve(DNS, SERVERS)];
const CLEAN = { failures: [] };
const NODE = 'c0a80901';

describe('the table and the engine', () => {
  test('the table leads to the engine, which has the endpoints', async () => {
    const [table, engine] = [new FakeNftTable(), new FakeEngine()];
    const apply = await started(userspacePlane(table, engine));
    expect(await apply(...ALL)).toEqual(CLEAN);
    expect(await targets(table)).toEqual([`${NODE} 20000`, `${NODE} 20000`]);
    expect(engine.ports).toEqual([
      'TCP 10.96.0.10:80 -> 10.244.0.1:8080, 10.244.0.2:8080',
      'UDP 10.96.0.11:53 -> 10.244.0.1:8080, 10.244.0.2:8080',
    ]);
    expect(engine.update.listeners?.map(({ protocol, key }) => [protocol, key])).toEqual([
      ['TCP', undefined],
      ['UDP', 'UDP 10.96.0.11:53'],
    ]);
  });

  test('a change of endpoints writes nothing to the table', async () => {
    const [table, engine] = [new FakeNftTable(), new FakeEngine()];
    const apply = await started(userspacePlane(table, engine));
    await apply(...ALL);
    const writes = table.committed.length;
    expect(await apply({ kind: 'delete-real-server', id: WEB, realServer: SERVERS[0]! })).toEqual(CLEAN);
    expect(table.committed).toHaveLength(writes);
    expect(engine.ports[0]).toBe('TCP 10.96.0.10:80 -> 10.244.0.2:8080');
  });

  test('without endpoints, nothing listens for a port of UDP, and another Service gets another port', async () => {
    const [table, engine] = [new FakeNftTable(), new FakeEngine()];
    const apply = await started(userspacePlane(table, engine));
    await apply(...ALL);
    await apply(...SERVERS.map((server): Op => ({ kind: 'delete-real-server', id: DNS, realServer: server })));
    expect(await targets(table)).toEqual([`${NODE} 20000`]);
    expect(engine.update.listeners?.map(({ protocol }) => protocol)).toEqual(['TCP']);
    // A datagram on its way must not reach another Service.
    await apply(...serve({ ...DNS, address: address(4, 12) }, SERVERS), ...serve(DNS, SERVERS));
    expect(new Set(await targets(table, [DNS, { ...DNS, address: address(4, 12) }])).has(`${NODE} 20000`)).toBe(false);
  });

  test('ports that other programs have are not used', async () => {
    const [table, engine] = [new FakeNftTable(), new FakeEngine()];
    for (const taken of ['TCP 20000', 'TCP 20001', 'UDP 20000']) engine.taken.add(taken);
    const apply = await started(userspacePlane(table, engine));
    expect(await apply(...ALL)).toEqual(CLEAN);
    expect(await targets(table)).toEqual([`${NODE} 20002`, `${NODE} 20001`]);
  });

  test('where no port is free, the operations fail with their errno, and nothing leads there', async () => {
    const [table, engine] = [new FakeNftTable(), new FakeEngine()];
    for (let port = 20_000; port < 20_100; port++) engine.taken.add(`TCP ${port}`);
    const apply = await started(userspacePlane(table, engine));
    expect(await apply(...ALL)).toMatchObject({
      failures: Array.from({ length: 3 }, () => expect.objectContaining({ code: 'EADDRINUSE' })),
    });
    expect(await targets(table)).toEqual([`${NODE} 20000`]);
    expect(engine.ports).toHaveLength(1);
  });

  test('what nftables mode has left leads to the engine after one transaction', async () => {
    const [table, engine] = [new FakeNftTable(), new FakeEngine()];
    const before = nftablesPlane(table);
    await started(before);
    const random = { ...WEB, scheduler: 'random' };
    await before.kernel.apply(new Transaction(serve(random, SERVERS)));
    const { kernel, ...plane } = userspacePlane(table, engine);
    const apply = await started({ kernel, ...plane });
    // None of them gets connections of the engine, so all differ from what is wanted.
    const found = (await kernel.getRealServers([WEB])).get(virtualServerKey(WEB));
    expect(found?.map(({ weight }) => weight)).toEqual([0, 0]);
    const edits = SERVERS.map((server): Op => ({ kind: 'edit-real-server', id: WEB, realServer: server }));
    expect(await apply({ kind: 'edit-virtual-server', virtualServer: WEB }, ...edits)).toEqual(CLEAN);
    expect(await targets(table)).toEqual([`${NODE} 20000`]);
    expect(await kernel.getVirtualServers()).toEqual([WEB]);
  });

  test('another process keeps the ports that the table has', async () => {
    const table = new FakeNftTable();
    const first = new FakeEngine();
    for (const taken of ['TCP 20000', 'UDP 20000']) first.taken.add(taken);
    await (
      await started(userspacePlane(table, first))
    )(...ALL);
    const before = await targets(table);
    const second = await started(userspacePlane(table));
    const writes = table.committed.length;
    await second(...ALL.map((op): Op => (op.kind === 'add-real-server' ? op : { ...op })));
    expect(await targets(table)).toEqual(before);
    expect(table.committed).toHaveLength(writes);
  });

  test('an element that leads elsewhere is found', async () => {
    const table = new FakeNftTable();
    const plane = userspacePlane(table);
    const apply = await started(plane);
    await apply(...serve(WEB, SERVERS));
    const other: Op = { kind: 'add-real-server', id: WEB, realServer: realServer(endpoint(4, 9), 80) };
    await nftablesPlane(table).kernel.apply(new Transaction([other]));
    const found = (await plane.kernel.getRealServers([WEB])).get(virtualServerKey(WEB));
    expect(found?.map(({ weight }) => weight)).toEqual([0, 0]);
    expect(await apply({ kind: 'edit-real-server', id: WEB, realServer: SERVERS[0]! })).toEqual(CLEAN);
    expect(await targets(table)).toEqual([`${NODE} 20000`]);
  });

  test('when the node loses the address, everything moves to another one', async () => {
    const [table, engine] = [new FakeNftTable(), new FakeEngine()];
    const plane = userspacePlane(table, engine);
    const apply = await started(plane, ['192.168.9.1', '192.168.9.2']);
    await apply(...ALL);
    plane.node.setNodeAddresses([nodeAddress('192.168.9.2')]);
    await plane.kernel.ensureDevice();
    expect(new Set(engine.update.listeners?.map(({ address: at }) => at))).toEqual(new Set([ip('192.168.9.2')]));
    const found = (await plane.kernel.getRealServers([WEB])).get(virtualServerKey(WEB));
    expect(found?.map(({ weight }) => weight)).toEqual([0, 0]);
    await apply(...[WEB, DNS].map((id): Op => ({ kind: 'edit-real-server', id, realServer: SERVERS[0]! })));
    expect(await targets(table)).toEqual(['c0a80902 20000', 'c0a80902 20000']);
  });

  test('where a port is taken at the new address, another one is used', async () => {
    const [table, engine] = [new FakeNftTable(), new FakeEngine()];
    const plane = userspacePlane(table, engine);
    const apply = await started(plane, ['192.168.9.1', '192.168.9.2']);
    await apply(...ALL);
    engine.taken.add('UDP 20000');
    plane.node.setNodeAddresses([nodeAddress('192.168.9.2')]);
    await plane.kernel.ensureDevice();
    expect((await engine.report()).refusedListeners).toEqual([]);
    await apply(...[WEB, DNS].map((id): Op => ({ kind: 'edit-real-server', id, realServer: SERVERS[0]! })));
    expect(await targets(table)).toEqual(['c0a80902 20000', 'c0a80902 20001']);
  });

  test('SCTP and schedulers that the engine does not have are refused', async () => {
    const apply = await started(userspacePlane());
    const sctp = serverIn('userspace', address(4, 12), 80, 'SCTP');
    expect(await apply({ kind: 'add-virtual-server', virtualServer: sctp })).toMatchObject({
      failures: [{ code: 'EPROTONOSUPPORT' }],
    });
    expect(await apply({ kind: 'add-virtual-server', virtualServer: { ...WEB, scheduler: 'sh' } })).toMatchObject({
      failures: [{ code: 'EOPNOTSUPP' }],
    });
  });

  test('a preview leaves the engine alone, and has the elements of nft', async () => {
    const engine = new FakeEngine();
    const plane = userspacePlane(new FakeNftTable(), engine);
    await started(plane);
    const { parts } = await plane.kernel.preview([], [serve(WEB, SERVERS)]);
    expect(parts[0]?.map(({ command }) => command).join('\n')).toContain('192.168.9.1 . 20000');
    expect(parts[0]?.at(-1)?.command).toBe('# engine: add-real-server TCP 10.96.0.10:80 -> 10.244.0.2:8080 weight=1');
    expect(engine.ports).toEqual([]);
  });

  test('when the process ends, the table leads to endpoints, but for what leads elsewhere already', async () => {
    const [table, engine] = [new FakeNftTable(), new FakeEngine()];
    const plane = userspacePlane(table, engine);
    const apply = await started(plane);
    const sticky = { ...serverIn('userspace', address(4, 13), 80), flags: VS_PERSISTENT, timeout: 600 };
    const idle = { ...SERVERS[0]!, weight: 0 };
    await apply(...ALL, ...serve(sticky, [idle, SERVERS[1]!]));
    // Another process leads it to its own engine.
    const [other, own] = ([20_007, 20_000] as const).map((port) => realServer(ip('192.168.9.1'), port));
    const move: Op[] = [
      { kind: 'add-real-server', id: DNS, realServer: other! },
      { kind: 'delete-real-server', id: DNS, realServer: own! },
    ];
    await nftablesPlane(table).kernel.apply(new Transaction(move));
    await plane.kernel.close();
    expect((await targets(table, [WEB])).toSorted()).toEqual(['af40001 8080', 'af40002 8080']);
    expect(await targets(table, [sticky])).toEqual(['af40002 8080']);
    expect(await targets(table, [DNS])).toEqual([`${NODE} 20007`]);
    const left = await nftablesPlane(table).kernel.findVirtualServers([sticky]);
    expect(left.get(virtualServerKey(sticky))).toMatchObject({ scheduler: 'random', timeout: 600 });
    expect(engine.update.listeners).toEqual([]);
  });

  test('the engine ends with the kernel', async () => {
    const engine = new FakeEngine();
    const { kernel, ...plane } = userspacePlane(new FakeNftTable(), engine);
    await (
      await started({ kernel, ...plane })
    )(...ALL);
    await kernel.close();
    expect(engine.isClosed).toBe(true);
  });
});
