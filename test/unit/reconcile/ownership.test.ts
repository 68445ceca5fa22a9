import { describe, expect, test } from '@jest/globals';
import { removeAll } from '../../../src/daemon/clean-up.ts';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { plannedSet } from '../../../src/state/set-roles.ts';
import { formatVirtualServer } from '../../../src/state/virtual-server.ts';
import { configOf } from '../../support/config.ts';
import { listed, port, service, slice } from '../../support/objects.ts';
import { Reconciling, TestLog } from '../../support/reconciling.ts';
import { address, portOf, vsId } from '../../support/state.ts';
import { formatOp } from '../../../src/state/op.ts';

const OWN = '192.168.9.1';
const NODE_PORT = service('web', '10.96.0.10', { type: 'NodePort', ports: [port(80, { nodePort: 30_080 })] });
const LISTS = listed([NODE_PORT], [slice('web', ['10.244.0.5'])]);
const KEEPALIVED = vsId('10.99.0.1', 30_080);

function put(kernel: FakeKernel, id: ReturnType<typeof vsId>): void {
  kernel.put({
    kind: 'add-virtual-server',
    virtualServer: { ...id, scheduler: 'rr', flags: 0, timeout: 0, prefix: 32 },
  });
}

function setAddresses(kernel: FakeKernel, ...addresses: readonly string[]): void {
  kernel.setNodeAddresses(
    addresses.map((text) => ({ address: address(text), prefix: 24, interfaceName: 'eth0', tentative: false })),
  );
}

async function virtualServers(kernel: FakeKernel): Promise<string[]> {
  return (await kernel.getVirtualServers()).map(formatVirtualServer).sort();
}

/** A node with one NodePort, and a virtual server of keepalived whose port has the same number. */
async function served(): Promise<{ kernel: FakeKernel; run: Reconciling }> {
  const kernel = new FakeKernel();
  await kernel.prepare();
  setAddresses(kernel, OWN, '192.168.8.1');
  put(kernel, KEEPALIVED);
  const run = new Reconciling(kernel);
  await run.take(...LISTS);
  return { kernel, run };
}

describe('a foreign virtual server with the protocol and number of a NodePort', () => {
  const served4 = ['TCP 10.96.0.10:80', 'TCP 10.99.0.1:30080', 'TCP 192.168.8.1:30080', 'TCP 192.168.9.1:30080'];

  test('a foreign virtual server with the number of a NodePort is left alone by all syncs and by --cleanup', async () => {
    const { kernel, run } = await served();
    expect(await virtualServers(kernel)).toEqual(served4);
    await run.pass(30_000);
    expect(await virtualServers(kernel)).toEqual(served4);
    await new Reconciling(kernel).take(...LISTS);
    expect(await virtualServers(kernel)).toEqual(served4);
    const log = new TestLog();
    const others = { find: async () => Promise.resolve([]), remove: async () => Promise.resolve() };
    expect(await removeAll(kernel, others, configOf('--cleanup'), log)).toBe(0);
    expect(await virtualServers(kernel)).toEqual(['TCP 10.99.0.1:30080']);
    const done = log.entries.find(({ message }) => message === 'clean-up done');
    expect(done?.fields['removed']).toContain('3 x delete-virtual-server');
    expect(done?.fields['objects']).toContain('delete-virtual-server TCP 192.168.9.1:30080');
  });

  test('a leftover NodePort at an address that the node has lost is deleted', async () => {
    const { kernel, run } = await served();
    await run.reconciler.stop();
    setAddresses(kernel, OWN);
    const heir = new Reconciling(kernel);
    await heir.take(...LISTS);
    expect(await virtualServers(kernel)).toEqual(served4.filter((line) => !line.includes('192.168.8.1')));
    const deleted = heir.log.entries.find(({ message }) => message.startsWith('deleted leftovers of an earlier run'));
    expect(deleted?.fields).toEqual({
      deleted: ['1 x delete-virtual-server', '1 x delete-entry'],
      objects: ['delete-virtual-server TCP 192.168.8.1:30080', 'delete-entry KUBE-NODE-PORT-IP 192.168.8.1'],
    });
  });

  test('leftovers of kube-proxy are recognized by the addresses of the interfaces, including 127.0.0.1', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    setAddresses(kernel, OWN, '127.0.0.1');
    const set = plannedSet('NODE-PORT-TCP', 4, 0);
    kernel.put({ kind: 'create-set', set });
    kernel.put({ kind: 'add-entry', set, entry: { type: 'bitmap:port', port: portOf(30_081) } });
    for (const id of [vsId(OWN, 30_081), vsId('127.0.0.1', 30_081), vsId('10.99.0.1', 30_081)]) put(kernel, id);
    await new Reconciling(kernel).take(...LISTS);
    expect(await virtualServers(kernel)).toEqual(['TCP 10.96.0.10:80', 'TCP 10.99.0.1:30081', 'TCP 192.168.9.1:30080']);
  });
});

describe('the log of the repairs of a full check', () => {
  const count = 12;
  const services = Array.from({ length: count }, (_, i) => service(`s${i}`, `10.96.1.${i + 1}`));

  test('the log of repairs names the first ten objects and the number of the others', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = new Reconciling(kernel);
    await run.take(...listed(services, []));
    for (let i = 0; i < count; i++) kernel.put({ kind: 'delete-virtual-server', id: vsId(`10.96.1.${i + 1}`, 80) });
    await run.pass(30_000);
    const repaired = run.log.entries.find(({ message }) => message.startsWith('kernel state differed'));
    expect(repaired?.fields['drift']).toEqual(['12 x add-virtual-server']);
    const objects = repaired?.fields['objects'] as readonly string[];
    expect(objects).toHaveLength(11);
    expect(objects[0]).toBe('add-virtual-server TCP 10.96.1.1:80 lc flags=0 timeout=0');
    expect(objects[10]).toBe('and 2 more');
  });

  test('the log of repairs omits operations that the kernel refused', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = new Reconciling(kernel);
    await run.take(...listed(services.slice(0, 2), []));
    for (const i of [1, 2]) kernel.put({ kind: 'delete-virtual-server', id: vsId(`10.96.1.${i}`, 80) });
    const refused = address('10.96.1.1');
    kernel.failOps((op) => (op.kind === 'add-virtual-server' && op.virtualServer.address === refused ? 12 : undefined));
    const report = await run.pass(30_000);
    expect(report.drift.map(formatOp)).toEqual(['add-virtual-server TCP 10.96.1.2:80 lc flags=0 timeout=0']);
  });
});
