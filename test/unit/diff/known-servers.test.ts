import { constants } from 'node:os';
import { describe, expect, test } from '@jest/globals';
import { virtualServerKey } from '../../../src/state/virtual-server.ts';
import { type Op, formatOp } from '../../../src/state/op.ts';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { LargeService, sliceApplied } from '../../support/large-service.ts';
import { listed } from '../../support/objects.ts';
import { PLAN_CONFIG, Reconciling } from '../../support/reconciling.ts';
import { real, vsId } from '../../support/state.ts';

const ENDPOINTS = 40;
const ID = vsId('10.96.0.10', 1_000);
const large = new LargeService(1);

/** The endpoint with this number. */
const endpoint = (number: number) => real(`10.244.0.${number}`, 1, 1_000);

async function started(options: ConstructorParameters<typeof Reconciling>[1] = {}, kernel = new FakeKernel()) {
  const run = new Reconciling(kernel, options);
  await run.settle(...listed([large.service], [large.slice(ENDPOINTS)]));
  kernel.applied.length = 0;
  /** Leaves out these endpoints. Returns what was done, and how many virtual servers were read. */
  const leave = async (...without: readonly number[]) => {
    const before = kernel.calls.get('getRealServers') ?? 0;
    const report = await run.take(sliceApplied(large.slice(ENDPOINTS, without)));
    const ops = kernel.applied.splice(0).map((op) => formatOp(op).replace('TCP 10.96.0.10:1000 -> ', ''));
    return { ops, reads: (kernel.calls.get('getRealServers') ?? 0) - before, report };
  };
  const servers = () => kernel.tables.virtualServers.get(virtualServerKey(ID))?.realServers;
  return { kernel, run, leave, servers };
}

const gone = (number: number): Op => ({ kind: 'delete-real-server', id: ID, realServer: endpoint(number) });

describe('a change of a virtual server with many real servers', () => {
  test('writes the difference of the plans without a read', async () => {
    const { leave } = await started();
    expect(await leave(3)).toMatchObject({ ops: ['edit-real-server 10.244.0.3:1000 weight=0'], reads: 0 });
    expect(await leave(3, 4)).toMatchObject({ ops: ['edit-real-server 10.244.0.4:1000 weight=0'], reads: 0 });
  });

  test('gives an endpoint that comes back while it drains its weight again, without a read', async () => {
    const { leave, run } = await started();
    await leave(3, 4);
    expect(await leave(4)).toMatchObject({ ops: ['edit-real-server 10.244.0.3:1000 weight=1'], reads: 0 });
    expect(run.reports.at(-1)?.draining).toBe(1);
  });

  test('reads the connections of what has left five seconds later, and deletes it when there are none', async () => {
    const { leave, run, kernel, servers } = await started();
    await leave(3, 4);
    kernel.setObserved(ID, endpoint(3), { activeConnections: 1 });
    await run.pass(5_000);
    expect(kernel.applied.splice(0).map(formatOp)).toEqual([
      'delete-real-server TCP 10.96.0.10:1000 -> 10.244.0.4:1000 weight=0',
    ]);
    kernel.setObserved(ID, endpoint(3), { activeConnections: 0 });
    await run.pass(5_000);
    expect(servers()?.size).toBe(ENDPOINTS - 2);
    expect(run.reports.at(-1)?.draining).toBe(0);
  });

  test('finds in the same sync that another program deleted a real server that leaves', async () => {
    const { leave, kernel, run, servers } = await started();
    kernel.put(gone(3));
    expect(await leave(3, 4)).toMatchObject({
      ops: ['edit-real-server 10.244.0.4:1000 weight=0', 'delete-real-server 10.244.0.4:1000 weight=0'],
      reads: 1,
      report: { ok: true, failures: [] },
    });
    expect(servers()?.size).toBe(ENDPOINTS - 2);
    expect(run.reports.at(-1)?.draining).toBe(0);
  });

  test('finds in the same sync that another program deleted the virtual server', async () => {
    const { leave, kernel, servers } = await started();
    kernel.put({ kind: 'delete-virtual-server', id: ID });
    expect((await leave(3)).report).toMatchObject({ ok: true, failures: [] });
    expect(servers()?.size).toBe(ENDPOINTS - 1);
  });

  test('sets what it adds even if another program has added it', async () => {
    const { leave, kernel, servers } = await started();
    await leave(3);
    kernel.put(gone(3));
    kernel.put({ kind: 'add-real-server', id: ID, realServer: { ...endpoint(3), weight: 7 } });
    await leave();
    expect([...(servers()?.values() ?? [])].map(({ weight }) => weight)).toEqual(Array(ENDPOINTS).fill(1));
  });

  test('reads the virtual server after an operation on it failed, until the retry has succeeded', async () => {
    const { leave, kernel, run, servers } = await started();
    kernel.failOps((op) => (op.kind === 'edit-real-server' ? constants.errno.ENOMEM : undefined));
    expect((await leave(3)).report.failures).toHaveLength(1);
    kernel.recover();
    expect(await leave(3, 4)).toMatchObject({ reads: 1 });
    expect(servers()?.size).toBe(ENDPOINTS - 2);
    await run.pass(1_000);
    expect(await leave(3, 4, 5)).toMatchObject({ reads: 0 });
  });

  test('reads the virtual server after its last change could not be applied at all', async () => {
    const { leave, kernel, run, servers } = await started();
    kernel.failMethod('apply', 'ENOBUFS');
    expect((await leave(3)).report.ok).toBe(false);
    kernel.recover();
    await run.pass(1_000);
    expect(servers()?.size).toBe(ENDPOINTS - 1);
  });

  test('reads if real servers have the tunnel of an earlier forwarding method, and keeps it', async () => {
    const { kernel } = await started();
    kernel.setObserved(ID, endpoint(3), { tunnelType: 1, tunnelPort: 6080, activeConnections: 1 });
    const { leave, servers } = await started({}, kernel);
    expect(await leave(3)).toMatchObject({ reads: 1 });
    expect([...(servers()?.values() ?? [])].find(({ weight }) => weight === 0)).toMatchObject({
      tunnelType: 1,
      tunnelPort: 6080,
    });
  });

  test('reads with a scheduler that keeps choosing what drains, so that it is deleted at once', async () => {
    const { leave } = await started({ plan: { ...PLAN_CONFIG, scheduler: 'dh' } });
    expect(await leave(3)).toMatchObject({ ops: ['delete-real-server 10.244.0.3:1000 weight=0'], reads: 1 });
  });

  test('deletes the virtual server without a read', async () => {
    const { kernel, run } = await started();
    const before = kernel.calls.get('getRealServers');
    await run.take({ kind: 'service', event: { type: 'deleted', object: large.service.meta } });
    expect(await kernel.getVirtualServers()).toEqual([]);
    expect(kernel.calls.get('getRealServers')).toBe(before);
  });
});

test('while a part of a large change waits, a change that comes meanwhile reads what it finds', async () => {
  const many = new LargeService(10);
  const kernel = new FakeKernel();
  const run = new Reconciling(kernel);
  await run.settle(...listed([many.service], [many.slice(20)]));
  const apply = kernel.apply.bind(kernel);
  let parts = 0;
  kernel.apply = async (tx) => {
    if (parts++ === 0) {
      run.cluster.apply(sliceApplied(many.slice(1_100, [5, 6])));
      run.reconciler.clusterChanged();
    }
    return await apply(tx);
  };
  await run.take(sliceApplied(many.slice(1_000, [5])));
  while (run.reconciler.syncing) await new Promise((resolve) => setImmediate(resolve));
  expect(parts).toBeGreaterThan(2);
  await run.pass(5_000);
  while (run.reconciler.syncing) await new Promise((resolve) => setImmediate(resolve));
  const sizes = [...kernel.tables.virtualServers.values()].map(({ realServers }) => realServers.size);
  expect(sizes).toEqual(Array(10).fill(1_098));
});
