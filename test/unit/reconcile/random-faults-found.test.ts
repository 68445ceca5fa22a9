import { describe, expect, test } from '@jest/globals';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { plannedSet } from '../../../src/state/set-roles.ts';
import { twinName } from '../../../src/state/ip-set.ts';
import { formatVirtualServer } from '../../../src/state/virtual-server.ts';
import { listed, meta, service, slice } from '../../support/objects.ts';
import { Reconciling } from '../../support/reconciling.ts';
import { address, virtualServer, vsId } from '../../support/state.ts';

/** Virtual servers are recognized as ours by their set entries and bound address; here another process has removed both. */
describe('a virtual server whose set entries and address were removed', () => {
  async function served(): Promise<{ kernel: FakeKernel; run: Reconciling }> {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = new Reconciling(kernel);
    await run.take(...listed([service('web', '10.96.0.10')], [slice('web', ['10.244.0.5'])]));
    kernel.put({ kind: 'unbind-address', address: address('10.96.0.10') });
    for (const { entries } of kernel.tables.sets.values()) entries.clear();
    return { kernel, run };
  }

  async function virtualServers(kernel: FakeKernel): Promise<string[]> {
    return (await kernel.getVirtualServers()).map(formatVirtualServer);
  }

  test('a virtual server without set entries and address is deleted with its Service, even if that sync fails', async () => {
    const { kernel, run } = await served();
    kernel.failMethod('findVirtualServers', 'ENOBUFS');
    const report = await run.take({ kind: 'service', event: { type: 'deleted', object: meta('web') } });
    expect(report.ok).toBe(false);
    kernel.recover();
    await run.pass(1_000);
    expect(await virtualServers(kernel)).toEqual([]);
  });

  test('a virtual server that another process added is deleted by the check that binds its address again', async () => {
    const { kernel, run } = await served();
    kernel.put({ kind: 'add-virtual-server', virtualServer: virtualServer('10.96.0.10', 4444) });
    kernel.put({ kind: 'add-virtual-server', virtualServer: virtualServer('10.99.0.1', 4444) });
    await run.pass(30_000);
    const left = [vsId('10.96.0.10', 80), vsId('10.99.0.1', 4444)].map(formatVirtualServer);
    expect((await virtualServers(kernel)).sort()).toEqual(left.sort());
  });
});

test('default/kubernetes that is deleted after the bootstrap is removed, even if the kernel refused its set entries and address', async () => {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const run = new Reconciling(kernel);
  kernel.failOps((op) => (op.kind === 'bind-address' || op.kind === 'add-entry' ? 12 : undefined));
  run.cluster.apply({ kind: 'service', event: { type: 'applied', object: service('kubernetes', '10.96.0.1') } });
  run.cluster.apply({
    kind: 'endpoint-slice',
    event: { type: 'applied', object: slice('kubernetes', ['192.168.9.2']) },
  });
  run.reconciler.clusterChanged();
  await run.reconciler.bootstrapped();
  expect((await kernel.getVirtualServers()).map(formatVirtualServer)).toEqual(['TCP 10.96.0.1:80']);
  kernel.recover();
  await run.take(...listed([], []));
  await run.pass(30_000);
  expect((await kernel.getVirtualServers()).map(formatVirtualServer)).toEqual([]);
});

test('a Service that is deleted after a failed first sync is removed, even if the kernel refused its set entries', async () => {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const run = new Reconciling(kernel);
  kernel.failOps((op) => {
    if (op.kind === 'bind-address') kernel.crashAfter(0);
    return op.kind === 'bind-address' || op.kind === 'add-entry' ? 12 : undefined;
  });
  const [web, dns] = [service('web', '10.96.0.10'), service('dns', '10.96.0.11')];
  const report = await run.take(...listed([web, dns], [slice('web', ['10.244.0.5']), slice('dns', ['10.244.0.6'])]));
  expect(report).toMatchObject({ kind: 'first', ok: false });
  kernel.recover();
  run.cluster.apply({ kind: 'service', event: { type: 'deleted', object: meta('web') } });
  await run.pass(1_000);
  expect((await kernel.getVirtualServers()).map(formatVirtualServer)).toEqual(['TCP 10.96.0.11:80']);
});

test('a virtual server that a failed first sync could not delete is deleted by the next one, though its marks are gone', async () => {
  const kernel = new FakeKernel();
  await kernel.prepare();
  await new Reconciling(kernel).take(...listed([service('web', '10.96.0.10')], [slice('web', ['10.244.0.5'])]));
  kernel.flushRules(6);
  const addRules = kernel.addRules.bind(kernel);
  kernel.addRules = (rules) => (rules.family === 6 ? Promise.reject(new Error('the lock is held')) : addRules(rules));
  kernel.failOps((op) => (op.kind === 'delete-virtual-server' ? 12 : undefined));
  const run = new Reconciling(kernel);
  expect(await run.take(...listed([], []))).toMatchObject({ kind: 'first', ok: false });
  expect((await kernel.getVirtualServers()).map(formatVirtualServer)).toEqual(['TCP 10.96.0.10:80']);
  kernel.addRules = addRules;
  kernel.recover();
  expect(await run.pass(1_000)).toMatchObject({ kind: 'first', ok: true });
  expect((await kernel.getVirtualServers()).map(formatVirtualServer)).toEqual([]);
});

test('a virtual server that could not be deleted is retried, even if its addition had been refused before', async () => {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const run = new Reconciling(kernel);
  await run.take(...listed([], []));
  kernel.failOps((op) => (op.kind === 'add-virtual-server' || op.kind === 'add-entry' ? 12 : undefined));
  await run.take({ kind: 'service', event: { type: 'applied', object: service('web', '10.96.0.10') } });
  kernel.recover();
  await run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: slice('web', ['10.244.0.5']) } });
  kernel.failOps((op) => (op.kind === 'delete-virtual-server' ? 12 : undefined));
  await run.take({ kind: 'service', event: { type: 'deleted', object: meta('web') } });
  expect((await kernel.getVirtualServers()).map(formatVirtualServer)).toEqual(['TCP 10.96.0.10:80']);
  kernel.recover();
  await run.pass(1_000);
  await run.pass(30_000);
  expect((await kernel.getVirtualServers()).map(formatVirtualServer)).toEqual([]);
});

test('a temporary set that could not be destroyed is destroyed by the next full check, which is not drift', async () => {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const run = new Reconciling(kernel);
  await run.take(...listed([service('web', '10.96.0.10')], [slice('web', ['10.244.0.5'])]));
  const set = plannedSet('CLUSTER-IP', 4, 0);
  kernel.put({ kind: 'create-set', set: { ...set, name: twinName(set.name) } });
  expect(await run.pass(30_000)).toMatchObject({ kind: 'full', failures: [], drift: [] });
  expect([...kernel.tables.sets.keys()].filter((name) => name.includes('~'))).toEqual([]);
  expect((await run.pass(30_000)).operations.size).toBe(0);
});

describe('a set of ours that has another type', () => {
  test('a set of the wrong type is replaced even if all other sets were deleted', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = new Reconciling(kernel);
    await run.take(...listed([service('web', '10.96.0.10')], [slice('web', ['10.244.0.5'])]));
    for (const family of [4, 6] as const) kernel.flushRules(family);
    kernel.tables.sets.clear();
    const wrong = { ...plannedSet('CLUSTER-IP', 4, 0), type: 'hash:ip' } as const;
    kernel.put({ kind: 'create-set', set: wrong });
    const report = await run.pass(30_000);
    expect(report).toMatchObject({ kind: 'full', ok: true });
    expect(kernel.tables.sets.get('KUBE-CLUSTER-IP')?.set.type).toBe('hash:ip,port');
    expect([...(kernel.tables.sets.get('KUBE-CLUSTER-IP')?.entries.values() ?? [])]).toHaveLength(1);
  });
});
