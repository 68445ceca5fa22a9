import { describe, expect, jest, test } from '@jest/globals';
import { FakeKernel } from '../../../src/kernel/fake-kernel.ts';
import { formatCidr, parseCidr } from '../../../src/net/cidr.ts';
import { type IpAddress, formatIp, parseIp } from '../../../src/net/ip.ts';
import { namespacedName } from '../../../src/net/names.ts';
import { toPort } from '../../../src/net/port.ts';
import type { EndpointSlice } from '../../../src/kube/objects.ts';
import type { SourceEvent } from '../../../src/kube/source.ts';
import { planRules } from '../../../src/plan/plan-rules.ts';
import type { RuleSet } from '../../../src/state/rule-set.ts';
import { plannedSet } from '../../../src/plan/set-names.ts';
import { formatIpSetEntry } from '../../../src/state/ip-set.ts';
import { type Op, formatOp } from '../../../src/state/op.ts';
import type { SyncReport } from '../../../src/reconcile/sync-report.ts';
import { type VirtualServerId, formatVirtualServer } from '../../../src/state/virtual-server.ts';
import { type RealServer, formatRealServer } from '../../../src/state/real-server.ts';
import { afterRead } from '../../support/after-read.ts';
import { endpoint, listed, port, service, slice } from '../../support/objects.ts';
import { PLAN_CONFIG, Reconciling } from '../../support/reconciling.ts';

const WEB = service('web', '10.96.0.10');
const WEB_SLICE = slice('web', ['10.244.0.5', '10.244.0.6']);

function ip(text: string): IpAddress {
  const address = parseIp(text);
  if (address === undefined) throw new Error(text);
  return address;
}

function id(address: string, number = 80): VirtualServerId {
  return { address: ip(address), port: toPort(number)!, protocol: 'TCP' };
}

function real(address: string, weight = 1): RealServer {
  return { address: ip(address), port: toPort(8080)!, weight };
}

const sliceChange = (endpoints: Parameters<typeof slice>[1], of = 'web'): SourceEvent => ({
  kind: 'endpoint-slice',
  event: { type: 'applied', object: slice(of, endpoints) },
});

/** Virtual servers with their real servers, in words. */
async function ipvs(kernel: FakeKernel): Promise<Record<string, string[]>> {
  const services = await kernel.getVirtualServers();
  const servers = await kernel.getRealServers(services);
  return Object.fromEntries(
    services.map((virtualServer, index) => [
      formatVirtualServer(virtualServer),
      ([...servers.values()][index] ?? []).map((server) => `${formatRealServer(server)} ${server.weight}`).sort(),
    ]),
  );
}

async function started(): Promise<{ kernel: FakeKernel; run: Reconciling }> {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const run = new Reconciling(kernel);
  await run.take(...listed([WEB], [WEB_SLICE]));
  return { kernel, run };
}

describe('local routes', () => {
  const light = { ...PLAN_CONFIG, localRouteCidrs: [parseCidr('10.96.0.0/12')!, parseCidr('fd00:96::/112')!] };
  const routes = async (kernel: FakeKernel): Promise<string[]> =>
    (await kernel.getLocalRoutes()).map(({ cidr }) => formatCidr(cidr));
  const lines = (kernel: FakeKernel): string[] =>
    kernel.applied.map(formatOp).filter((line) => /route|address|kubernetes|virtual/.test(line));

  test('stand with the first service, before any other; no address is bound', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = new Reconciling(kernel, { plan: light });
    await run.take(...listed([WEB, service('kubernetes', '10.96.0.1')], [WEB_SLICE]));
    expect(lines(kernel)).toEqual([
      'add-virtual-server TCP 10.96.0.1:80 lc flags=0 timeout=0',
      'add-route 10.96.0.0/12',
      'add-route fd00:96::/112',
      'add-virtual-server TCP 10.96.0.10:80 lc flags=0 timeout=0',
    ]);
    expect(await kernel.getBoundAddresses()).toEqual([]);
  });

  test('take the place of addresses, and give it back: one stands before the other goes', async () => {
    const { kernel, run } = await started();
    await run.reconciler.stop();
    kernel.applied.length = 0;
    const lighter = new Reconciling(kernel, { plan: light });
    await lighter.take(...listed([WEB], [WEB_SLICE]));
    expect(lines(kernel)).toEqual(['add-route 10.96.0.0/12', 'add-route fd00:96::/112', 'unbind-address 10.96.0.10']);
    await lighter.reconciler.stop();
    kernel.applied.length = 0;
    const heavier = new Reconciling(kernel);
    await heavier.take(...listed([WEB], [WEB_SLICE]));
    expect(lines(kernel)).toEqual([
      'bind-address 10.96.0.10',
      'delete-route 10.96.0.0/12',
      'delete-route fd00:96::/112',
    ]);
  });

  test('that are gone are drift, and repaired; one that fails is tried again', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = new Reconciling(kernel, { plan: light });
    kernel.failOps((op) => (op.kind === 'add-route' && op.cidr.prefix === 112 ? 101 : undefined));
    const first = await run.take(...listed([WEB], [WEB_SLICE]));
    expect(first.failures.map(({ op }) => formatOp(op))).toContain('add-route fd00:96::/112');
    expect(await routes(kernel)).toEqual(['10.96.0.0/12']);
    kernel.recover();
    // Refused twice, with the first service and with the rest; then the full check is due, which mends it.
    await run.pass(2_000);
    await run.pass(0);
    expect(await routes(kernel)).toEqual(['10.96.0.0/12', 'fd00:96::/112']);
    kernel.put({ kind: 'delete-route', cidr: parseCidr('10.96.0.0/12')! });
    const check = await run.pass(30_000);
    expect([...check.drift]).toEqual([['add-route', 1]]);
    expect((await routes(kernel)).toSorted()).toEqual(['10.96.0.0/12', 'fd00:96::/112']);
  });

  test('are not read in each check where none is wanted', async () => {
    const { kernel, run } = await started();
    expect(kernel.calls.get('getLocalRoutes')).toBe(1);
    await run.pass(30_000);
    expect(kernel.calls.get('getLocalRoutes')).toBe(1);
  });
});

describe('first sync', () => {
  test('programs a ClusterIP: set entry before virtual server before address', async () => {
    const { kernel, run } = await started();
    expect(run.reports[0]).toMatchObject({ kind: 'first', ok: true, failures: [] });
    expect(await ipvs(kernel)).toEqual({ 'TCP 10.96.0.10:80': ['10.244.0.5:8080 1', '10.244.0.6:8080 1'] });
    expect((await kernel.getBoundAddresses()).map(formatIp)).toEqual(['10.96.0.10']);
    const order = kernel.applied.map(formatOp).filter((line) => !line.startsWith('create-set'));
    expect(order).toEqual([
      'add-entry KUBE-CLUSTER-IP 10.96.0.10,tcp:80',
      'add-entry KUBE-IPVS-IPS 10.96.0.10',
      'add-virtual-server TCP 10.96.0.10:80 lc flags=0 timeout=0',
      'add-real-server TCP 10.96.0.10:80 -> 10.244.0.5:8080 weight=1',
      'add-real-server TCP 10.96.0.10:80 -> 10.244.0.6:8080 weight=1',
      'bind-address 10.96.0.10',
    ]);
  });

  test('nothing is written before services and slices are both listed', async () => {
    const kernel = new FakeKernel();
    const run = new Reconciling(kernel);
    run.cluster.apply(listed([WEB], [])[1]!);
    run.reconciler.clusterChanged();
    run.clock.advance(60_000);
    await new Promise((resolve) => setImmediate(resolve));
    expect(run.reports).toEqual([]);
    expect(kernel.counters.writes).toBe(0);
  });

  test('default/kubernetes is served before every other service', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const others = Array.from({ length: 20 }, (_, i) => service(`a${i}`, `10.96.1.${i}`));
    await new Reconciling(kernel).take(...listed([...others, service('kubernetes', '10.96.0.1')], []));
    const added = kernel.applied.filter(({ kind }) => kind === 'add-virtual-server' || kind === 'bind-address');
    expect(added.slice(0, 2).map(formatOp)).toEqual([
      'add-virtual-server TCP 10.96.0.1:80 lc flags=0 timeout=0',
      'bind-address 10.96.0.1',
    ]);
    expect(added).toHaveLength(42);
  });

  test('adopts what is there: repairs weight, scheduler and flags, keeps foreign virtual servers', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const left = { ...id('10.96.0.10'), scheduler: 'rr', flags: 1, timeout: 60, prefix: 32 };
    kernel.put({ kind: 'add-virtual-server', virtualServer: left });
    kernel.put({ kind: 'add-real-server', id: id('10.96.0.10'), realServer: real('10.244.0.5', 0) });
    kernel.put({ kind: 'add-virtual-server', virtualServer: { ...left, ...id('172.20.0.1', 443) } });
    await new Reconciling(kernel).take(...listed([WEB], [WEB_SLICE]));
    expect(await ipvs(kernel)).toEqual({
      'TCP 10.96.0.10:80': ['10.244.0.5:8080 1', '10.244.0.6:8080 1'],
      'TCP 172.20.0.1:443': [],
    });
    const [virtualServer] = await kernel.getVirtualServers();
    expect(virtualServer).toMatchObject({ scheduler: 'lc', flags: 0, timeout: 0 });
  });

  test('removes what an earlier run left: a service that was deleted while nobody watched', async () => {
    const { kernel } = await started();
    await new Reconciling(kernel).take(...listed([service('other', '10.96.0.11')], []));
    expect(Object.keys(await ipvs(kernel))).toEqual(['TCP 10.96.0.11:80']);
    expect((await kernel.getBoundAddresses()).map(formatIp)).toEqual(['10.96.0.11']);
  });
});

describe('default/kubernetes ahead of the lists', () => {
  const API = service('kubernetes', '10.96.0.1');
  const API_SLICE = slice('kubernetes', ['192.168.9.2', '192.168.9.3']);
  const ADDED = [
    'add-entry KUBE-CLUSTER-IP 10.96.0.1,tcp:80',
    'add-entry KUBE-IPVS-IPS 10.96.0.1',
    'add-virtual-server TCP 10.96.0.1:80 lc flags=0 timeout=0',
    'add-real-server TCP 10.96.0.1:80 -> 192.168.9.2:8080 weight=1',
    'add-real-server TCP 10.96.0.1:80 -> 192.168.9.3:8080 weight=1',
    'bind-address 10.96.0.1',
  ];

  const lookedUp = (endpoints: EndpointSlice = API_SLICE): SourceEvent[] => [
    { kind: 'service', event: { type: 'applied', object: API } },
    { kind: 'endpoint-slice', event: { type: 'applied', object: endpoints } },
  ];

  /** The fake kernel answers within a turn of the loop. */
  async function settle(): Promise<void> {
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  }

  /** What a look ahead has brought is programmed; nothing is listed yet. */
  async function ahead(kernel: FakeKernel, events = lookedUp()): Promise<Reconciling> {
    const run = new Reconciling(kernel);
    for (const event of events) {
      run.cluster.apply(event);
      run.reconciler.clusterChanged();
    }
    await settle();
    return run;
  }

  const programmed = (kernel: FakeKernel): string[] =>
    kernel.applied.map(formatOp).filter((line) => !line.startsWith('create-set'));

  test('is programmed with the rules and sets it needs, once, and no sync is counted', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = await ahead(kernel);
    expect(programmed(kernel)).toEqual(ADDED);
    expect(await kernel.ensureRules(planRules(PLAN_CONFIG, 4))).toEqual({ changed: false });
    // A program to start, for which nobody waits yet.
    const sets = (await kernel.getSets()).map((set) => set.name);
    expect(sets.filter((name) => name.startsWith('KUBE-6-'))).toEqual([]);
    await expect(kernel.ensureRules(planRules(PLAN_CONFIG, 6))).rejects.toMatchObject({ code: 'ENOENT' });
    run.reconciler.clusterChanged();
    await settle();
    expect(programmed(kernel)).toEqual(ADDED);
    expect(run.reports).toEqual([]);
    expect(run.log.lines).toEqual(['info: default/kubernetes is served; the rest is being listed']);
  });

  test('the first sync goes on from there, and takes back what was old news', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = await ahead(kernel);
    kernel.applied.length = 0;
    const report = await run.take(...listed([API, WEB], [slice('kubernetes', ['192.168.9.3']), WEB_SLICE]));
    expect(report).toMatchObject({ kind: 'first', ok: true, failures: [] });
    expect(await ipvs(kernel)).toEqual({
      'TCP 10.96.0.1:80': ['192.168.9.3:8080 1'],
      'TCP 10.96.0.10:80': ['10.244.0.5:8080 1', '10.244.0.6:8080 1'],
    });
    expect(programmed(kernel)).not.toContain('add-virtual-server TCP 10.96.0.1:80 lc flags=0 timeout=0');
  });

  test('only adds: what an earlier run holds stays as it is, with every weight and flag', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    await new Reconciling(kernel).take(...listed([API, WEB], [API_SLICE, WEB_SLICE]));
    const left = { ...id('10.96.0.1'), scheduler: 'rr', flags: 1, timeout: 60, prefix: 32 };
    kernel.put({ kind: 'edit-virtual-server', virtualServer: left });
    kernel.put({ kind: 'add-real-server', id: id('10.96.0.1'), realServer: real('192.168.9.9', 7) });
    kernel.put({ kind: 'edit-real-server', id: id('10.96.0.1'), realServer: real('192.168.9.2', 0) });
    kernel.applied.length = 0;
    await ahead(kernel, lookedUp(slice('kubernetes', ['192.168.9.2', '192.168.9.4'])));
    expect(kernel.applied.filter(({ kind }) => /edit|delete|unbind|grow|destroy/.test(kind))).toEqual([]);
    expect(await ipvs(kernel)).toEqual({
      'TCP 10.96.0.1:80': ['192.168.9.2:8080 0', '192.168.9.3:8080 1', '192.168.9.4:8080 1', '192.168.9.9:8080 7'],
      'TCP 10.96.0.10:80': ['10.244.0.5:8080 1', '10.244.0.6:8080 1'],
    });
    expect((await kernel.getVirtualServers())[0]).toMatchObject({ scheduler: 'rr', flags: 1, timeout: 60 });
  });

  test('a node that has it already is not written to', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    await new Reconciling(kernel).take(...listed([API, WEB], [API_SLICE, WEB_SLICE]));
    const { writes } = kernel.counters;
    await ahead(kernel);
    expect(kernel.counters.writes).toBe(writes);
  });

  test('rules of others in our chains are left alone, and their services with them', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const theirs: RuleSet = {
      family: 4,
      chains: [{ table: 'nat', name: 'KUBE-SERVICES', rules: [['-j', 'KUBE-SVC-ABC']] }],
      jumps: [],
    };
    await kernel.ensureRules(theirs);
    const run = await ahead(kernel);
    expect(await kernel.ensureRules(theirs)).toEqual({ changed: false });
    expect(programmed(kernel)).toEqual([]);
    const report = await run.take(...listed([API], [API_SLICE]));
    expect(report).toMatchObject({ kind: 'first', ok: true });
    expect(programmed(kernel)).toEqual(ADDED);
  });

  test.each([
    ['its endpoints are not known', lookedUp().slice(0, 1)],
    ['the service is not known', lookedUp().slice(1)],
    ['the services are listed without it', [listed([WEB], [])[1]!, ...lookedUp().slice(1)]],
  ])('nothing is written where %s', async (_what, events) => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const { writes } = kernel.counters;
    await ahead(kernel, events);
    expect(kernel.counters.writes).toBe(writes);
  });

  test.each(['getNodeAddresses', 'findVirtualServers', 'getSets', 'addRules', 'apply'] as const)(
    'a kernel that fails in %s is told of by the first sync only, which does it all',
    async (method) => {
      const kernel = new FakeKernel();
      await kernel.prepare();
      kernel.failMethod(method, 'EIO');
      const run = await ahead(kernel);
      expect(run.log.lines).toEqual([expect.stringMatching(/^debug: default\/kubernetes was not programmed ahead/)]);
      kernel.recover();
      const report = await run.take(...listed([API], [API_SLICE]));
      expect(report).toMatchObject({ kind: 'first', ok: true, failures: [] });
      expect(await ipvs(kernel)).toEqual({ 'TCP 10.96.0.1:80': ['192.168.9.2:8080 1', '192.168.9.3:8080 1'] });
    },
  );
});

describe('change sync', () => {
  test('costs what the change costs: a new endpoint is one operation and no look at the kernel', async () => {
    const { kernel, run } = await started();
    kernel.applied.length = 0;
    const calls = new Map(kernel.calls);
    const report = await run.take(sliceChange(['10.244.0.5', '10.244.0.6', '10.244.0.7']));
    expect(report.kind).toBe('change');
    expect(kernel.applied.map(formatOp)).toEqual(['add-real-server TCP 10.96.0.10:80 -> 10.244.0.7:8080 weight=1']);
    expect(new Map(kernel.calls)).toEqual(calls.set('apply', (calls.get('apply') ?? 0) + 1));
  });

  test('an endpoint that goes: only its virtual server is read', async () => {
    const { kernel, run } = await started();
    kernel.applied.length = 0;
    const dumps = kernel.calls.get('getVirtualServers');
    const found = kernel.calls.get('findVirtualServers') ?? 0;
    await run.take(sliceChange(['10.244.0.5']));
    expect(kernel.applied.map(formatOp)).toEqual(['delete-real-server TCP 10.96.0.10:80 -> 10.244.0.6:8080 weight=0']);
    expect(kernel.calls.get('getVirtualServers')).toBe(dumps);
    expect(kernel.calls.get('findVirtualServers')).toBe(found + 1);
  });

  test('a new endpoint of a virtual server that somebody took away: it is read, and mended in the same sync', async () => {
    const { kernel, run } = await started();
    kernel.put({ kind: 'delete-virtual-server', id: id('10.96.0.10') });
    const report = await run.take(sliceChange(['10.244.0.5', '10.244.0.6', '10.244.0.7']));
    expect(report).toMatchObject({ kind: 'change', ok: true, failures: [] });
    const servers = ['10.244.0.5:8080 1', '10.244.0.6:8080 1', '10.244.0.7:8080 1'];
    expect(await ipvs(kernel)).toEqual({ 'TCP 10.96.0.10:80': servers });
    expect(run.log.lines.filter((line) => line.startsWith('error'))).toEqual([]);
  });

  test('a new endpoint that is there already gets its weight', async () => {
    const { kernel, run } = await started();
    kernel.put({ kind: 'add-real-server', id: id('10.96.0.10'), realServer: real('10.244.0.7', 0) });
    await run.take(sliceChange(['10.244.0.5', '10.244.0.6', '10.244.0.7']));
    expect((await ipvs(kernel))['TCP 10.96.0.10:80']).toContain('10.244.0.7:8080 1');
  });

  test('a new endpoint that the kernel will not have fails once in the report, and is retried', async () => {
    const { kernel, run } = await started();
    kernel.failOps((op) => (op.kind === 'add-real-server' ? 12 : undefined));
    const report = await run.take(sliceChange(['10.244.0.5', '10.244.0.6', '10.244.0.7']));
    expect(report.failures.map(({ op, code }) => `${formatOp(op)} ${code}`)).toEqual([
      'add-real-server TCP 10.96.0.10:80 -> 10.244.0.7:8080 weight=1 ENOMEM',
    ]);
    expect(run.clock.nextIn).toBe(1_000);
    kernel.recover();
    expect((await run.pass(1_000)).failures).toEqual([]);
    expect((await ipvs(kernel))['TCP 10.96.0.10:80']).toContain('10.244.0.7:8080 1');
  });

  test('looks at no other service: not for UDP flows, not for health checks', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = new Reconciling(kernel);
    const dns = service('dns', '10.96.0.53', { ports: [port(53, { protocol: 'UDP' })] });
    const udpSlice = (host: string): ReturnType<typeof slice> =>
      slice('dns', [host], { ports: [{ name: '', protocol: 'UDP', port: 8080 }] });
    const checked = service('checked', '10.96.0.11', {
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 32_000,
    });
    await run.take(...listed([WEB, dns, checked], [WEB_SLICE, udpSlice('10.244.0.1'), slice('checked', [])]));
    const flow = {
      family: 4 as const,
      protocol: 'UDP' as const,
      source: ip('10.244.0.7'),
      sourcePort: toPort(40_000)!,
      destination: ip('10.96.0.53'),
      destinationPort: toPort(53)!,
      replySource: ip('10.244.0.1'),
      replySourcePort: toPort(8080)!,
    };
    kernel.setUdpFlows([flow, { ...flow, sourcePort: toPort(40_001)!, replySource: ip('10.244.0.2') }]);
    const { plan } = run.reconciler;
    plan.services = () => {
      throw new Error('all services were looked at');
    };
    const changed = await run.take({
      kind: 'endpoint-slice',
      event: { type: 'applied', object: udpSlice('10.244.0.2') },
    });
    expect(changed).toMatchObject({ kind: 'change', ok: true, healthChecksChanged: false });
    expect(changed.flowCleanUps.map(({ deletedFlows }) => deletedFlows)).toEqual([1, 0]);
    const local = slice('checked', [endpoint('10.244.0.9', { nodeName: 'node-a' })]);
    const checks = await run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: local } });
    expect(checks).toMatchObject({ kind: 'change', ok: true, healthChecksChanged: true });
    expect(plan.healthChecks.get(namespacedName('default', 'checked'))?.localEndpoints).toBe(1);
  });

  test('a change that leaves the plan equal sends nothing', async () => {
    const { kernel, run } = await started();
    const before = { ...kernel.counters };
    const calls = new Map(kernel.calls);
    await run.take({
      kind: 'endpoint-slice',
      event: { type: 'applied', object: { ...WEB_SLICE, meta: { ...WEB_SLICE.meta, resourceVersion: '99' } } },
    });
    expect(kernel.counters.writes).toBe(before.writes);
    expect(new Map(kernel.calls)).toEqual(calls);
  });

  test('a deleted service leaves nothing: address first, then virtual server, then entries', async () => {
    const { kernel, run } = await started();
    kernel.applied.length = 0;
    await run.take({ kind: 'service', event: { type: 'deleted', object: { namespace: 'default', name: 'web' } } });
    expect(kernel.applied.map(formatOp)).toEqual([
      'unbind-address 10.96.0.10',
      'delete-virtual-server TCP 10.96.0.10:80',
      'delete-entry KUBE-CLUSTER-IP 10.96.0.10,tcp:80',
      'delete-entry KUBE-IPVS-IPS 10.96.0.10',
    ]);
  });

  test('an address that two services share stays until the second is gone', async () => {
    const shared = { type: 'LoadBalancer', externalIPs: ['203.0.113.9'] };
    const a = service('a', '10.96.0.1', { ...shared, ports: [port(80)] });
    const b = service('b', '10.96.0.2', { ...shared, ports: [port(81)] });
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = new Reconciling(kernel);
    await run.take(...listed([a, b], []));
    await run.take({ kind: 'service', event: { type: 'deleted', object: { namespace: 'default', name: 'a' } } });
    expect((await kernel.getBoundAddresses()).map(formatIp)).toContain('203.0.113.9');
    await run.take({ kind: 'service', event: { type: 'deleted', object: { namespace: 'default', name: 'b' } } });
    expect(await kernel.getBoundAddresses()).toEqual([]);
  });
});

describe('node addresses', () => {
  const onNode = (...texts: string[]): Parameters<FakeKernel['setNodeAddresses']>[0] =>
    texts.map((text) => ({ address: ip(text), prefix: 24, interfaceName: 'eth0', tentative: false }));

  test('a node port follows an address that comes or goes, by a change sync; a link-local one costs one read', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    kernel.setNodeAddresses(onNode('192.168.9.1'));
    const run = new Reconciling(kernel);
    await run.take(
      ...listed([service('web', '10.96.0.10', { type: 'NodePort', ports: [port(80, { nodePort: 30_080 })] })], []),
    );

    kernel.setNodeAddresses(onNode('192.168.9.1', '192.168.9.2'));
    run.reconciler.nodeAddressesChanged();
    expect((await run.pass(0)).kind).toBe('change');
    expect(Object.keys(await ipvs(kernel))).toContain('TCP 192.168.9.2:30080');

    kernel.setNodeAddresses(onNode('192.168.9.2', 'fe80::1'));
    run.reconciler.nodeAddressesChanged();
    await run.pass(0);
    expect(Object.keys(await ipvs(kernel))).toEqual(['TCP 10.96.0.10:80', 'TCP 192.168.9.2:30080']);

    kernel.applied.length = 0;
    kernel.setNodeAddresses(onNode('192.168.9.2', 'fe80::2'));
    run.reconciler.nodeAddressesChanged();
    expect((await run.pass(0)).operations.size).toBe(0);
    expect(kernel.applied).toEqual([]);
  });
});

describe('full check', () => {
  test('with nothing to repair writes nothing', async () => {
    const { kernel, run } = await started();
    const { writes } = kernel.counters;
    const report = await run.pass(30_000);
    expect(report).toMatchObject({ kind: 'full', ok: true });
    expect(report.operations.size).toBe(0);
    expect(kernel.counters.writes).toBe(writes);
  });

  test('repairs drift and counts it', async () => {
    const { kernel, run } = await started();
    kernel.put({ kind: 'delete-virtual-server', id: id('10.96.0.10') });
    kernel.put({ kind: 'unbind-address', address: ip('10.96.0.10') });
    const report = await run.pass(30_000);
    expect(Object.fromEntries(report.drift)).toEqual({
      'add-virtual-server': 1,
      'add-real-server': 2,
      'bind-address': 1,
    });
    expect(Object.keys(await ipvs(kernel))).toEqual(['TCP 10.96.0.10:80']);
    expect(run.log.lines.join('\n')).toContain('the kernel differed from the plan');
  });

  test('a change that waits is not counted as drift', async () => {
    const { run } = await started();
    run.cluster.apply(sliceChange(['10.244.0.9']));
    const report = await run.pass(30_000);
    expect(report.kind).toBe('full');
    expect(report.drift.size).toBe(0);
    expect(report.operations.get('add-real-server')).toBe(1);
  });
});

describe('a change during a full check', () => {
  /** `act` is done when real servers have been read for the n-th time from now; answers whether that has come. */
  function whenReadAgain(kernel: FakeKernel, n: number, act: () => void): () => boolean {
    let left = n;
    afterRead(kernel, (read) => {
      if (read === 'getRealServers' && --left === 0) act();
    });
    return () => left <= 0;
  }

  /** Until the full check that time brings has ended; answers the reports since. */
  async function wholeCheck(run: Reconciling): Promise<SyncReport[]> {
    const from = run.reports.length;
    await run.pass(30_000);
    for (let turn = 0; run.reports.at(-1)?.kind !== 'full' && turn < 10_000; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    await new Promise((resolve) => setImmediate(resolve));
    return run.reports.slice(from);
  }

  const clusterIp = (of: number): string => `10.96.${Math.trunc(of / 200)}.${20 + (of % 200)}`;

  /** 300 services: several pieces. */
  async function large(
    options: ConstructorParameters<typeof Reconciling>[1] = {},
  ): Promise<{ kernel: FakeKernel; run: Reconciling }> {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = new Reconciling(kernel, options);
    const names = Array.from({ length: 300 }, (_, of) => `s${of}`);
    const services = names.map((name, of) => service(name, clusterIp(of)));
    await run.take(
      ...listed(
        services,
        names.map((name) => slice(name, ['10.244.0.5', '10.244.0.6'])),
      ),
    );
    return { kernel, run };
  }

  const kinds = (reports: readonly SyncReport[]): string[] => reports.map(({ kind }) => kind);
  const total = (report: SyncReport | undefined): number =>
    [...(report?.operations.values() ?? [])].reduce((sum, count) => sum + count, 0);

  test('goes first, in a sync of its own: most of the kernel has not been read yet', async () => {
    const { kernel, run } = await large();
    let readLater = 0;
    const asked = whenReadAgain(kernel, 2, () => {
      readLater = kernel.calls.get('getRealServers') ?? 0;
      run.cluster.apply(sliceChange(['10.244.0.5', '10.244.0.6', '10.244.0.7'], 's250'));
      run.reconciler.clusterChanged();
    });
    let readBefore = 0;
    kernel.failOps((op) => {
      if (op.kind === 'add-real-server') readBefore = kernel.calls.get('getRealServers') ?? 0;
      return undefined;
    });
    const reports = await wholeCheck(run);
    expect(asked()).toBe(true);
    expect(kinds(reports)).toEqual(['change', 'full']);
    // The piece under way was ended, and no other begun.
    expect(readBefore).toBe(readLater);
    expect(kernel.calls.get('getRealServers')).toBeGreaterThan(readBefore + 1);
    expect(Object.fromEntries(reports[0]!.operations)).toEqual({ 'add-real-server': 1 });
    expect([total(reports[1]), reports[1]!.drift.size]).toEqual([0, 0]);
    expect((await ipvs(kernel))[`TCP ${clusterIp(250)}:80`]).toHaveLength(3);
  });

  test('waits for its pause, as between any two syncs', async () => {
    const { kernel, run } = await large({ minSyncPeriodMs: 1_000 });
    for (const [asked, of] of [
      [1, 250],
      [2, 251],
    ] as const) {
      whenReadAgain(kernel, asked, () => {
        run.cluster.apply(sliceChange(['10.244.0.5', '10.244.0.6', '10.244.0.7'], `s${of}`));
        run.reconciler.clusterChanged();
      });
    }
    expect(kinds(await wholeCheck(run))).toEqual(['change', 'full']);
    expect((await ipvs(kernel))[`TCP ${clusterIp(251)}:80`]).toHaveLength(2);
    expect(kinds([await run.pass(1_000)])).toEqual(['change']);
    expect((await ipvs(kernel))[`TCP ${clusterIp(251)}:80`]).toHaveLength(3);
  });

  test('is not taken for drift, though the check has read what was before', async () => {
    const { kernel, run } = await large();
    const apply = (...events: readonly SourceEvent[]): void => {
      for (const event of events) run.cluster.apply(event);
      run.reconciler.clusterChanged();
    };
    const changed = (object: Parameters<typeof service>): SourceEvent => ({
      kind: 'service',
      event: { type: 'applied', object: service(...object) },
    });
    // All virtual servers have been listed by now, and these not been looked at.
    whenReadAgain(kernel, 1, () =>
      apply(
        changed(['s290', clusterIp(290), { sessionAffinity: 'ClientIP', affinityTimeoutSeconds: 600 }]),
        changed(['new', '10.96.9.9']),
        { kind: 'service', event: { type: 'deleted', object: { namespace: 'default', name: 's291' } } },
        sliceChange(['10.244.0.6'], 's292'),
      ),
    );
    const [change, full] = await wholeCheck(run);
    expect(Object.fromEntries(change!.operations)).toEqual({
      'edit-virtual-server': 1,
      'add-virtual-server': 1,
      'bind-address': 1,
      'unbind-address': 1,
      'delete-virtual-server': 1,
      'delete-real-server': 1,
      'add-entry': 2,
      'delete-entry': 2,
    });
    expect([full!.kind, total(full), full!.drift.size]).toEqual(['full', 0, 0]);
  });

  test('a service that comes back while the check would clear it away stays', async () => {
    const { kernel, run } = await large();
    // Somebody else's doing: all that a service of ours would have, but nobody wants it.
    for (const op of [
      { kind: 'add-entry', set: plannedSet('CLUSTER-IP', 4, 0), entry: { type: 'hash:ip,port', ...id('10.96.9.9') } },
      { kind: 'bind-address', address: ip('10.96.9.9') },
      {
        kind: 'add-virtual-server',
        virtualServer: { ...id('10.96.9.9'), scheduler: 'lc', flags: 0, timeout: 0, prefix: 32 },
      },
    ] satisfies Op[]) {
      kernel.put(op);
    }
    whenReadAgain(kernel, 1, () => {
      run.cluster.apply({ kind: 'service', event: { type: 'applied', object: service('back', '10.96.9.9') } });
      run.cluster.apply({ kind: 'endpoint-slice', event: { type: 'applied', object: slice('back', ['10.244.0.9']) } });
      run.reconciler.clusterChanged();
    });
    const reports = await wholeCheck(run);
    expect(kinds(reports)).toEqual(['change', 'full']);
    expect((await ipvs(kernel))['TCP 10.96.9.9:80']).toEqual(['10.244.0.9:8080 1']);
    expect((await kernel.getBoundAddresses()).map(formatIp)).toContain('10.96.9.9');
    const set = (await kernel.getSets()).find(({ name }) => name === 'KUBE-CLUSTER-IP');
    expect(set?.entries.map(formatIpSetEntry)).toContain('10.96.9.9,tcp:80');
  });

  test('long or not, the event loop turns between two pieces once their time is used up', async () => {
    const { kernel, run } = await large();
    let turns = 0;
    let counting = setImmediate(function count() {
      turns += 1;
      counting = setImmediate(count);
    });
    const seen: number[] = [];
    afterRead(kernel, (read) => {
      if (read === 'getRealServers') seen.push(turns);
    });
    const clock = jest.spyOn(performance, 'now');
    let now = 0;
    clock.mockImplementation(() => (now += 10));
    try {
      await wholeCheck(run);
    } finally {
      clock.mockRestore();
      clearImmediate(counting);
    }
    expect(seen.length).toBeGreaterThan(4);
    expect(new Set(seen).size).toBe(seen.length);
  });

  test('that cannot be written ends the check, and the next one reads everything', async () => {
    const { kernel, run } = await large();
    whenReadAgain(kernel, 2, () => {
      kernel.failMethod('apply', 'EIO');
      run.cluster.apply(sliceChange(['10.244.0.5', '10.244.0.6', '10.244.0.7'], 's250'));
      run.reconciler.clusterChanged();
    });
    const reports = await wholeCheck(run);
    expect(reports.map(({ kind, ok }) => [kind, ok])).toEqual([
      ['change', false],
      ['full', false],
    ]);
    kernel.recover();
    await run.pass(2_000);
    expect(run.reports.at(-1)).toMatchObject({ kind: 'full', ok: true });
    expect((await ipvs(kernel))[`TCP ${clusterIp(250)}:80`]).toHaveLength(3);
  });

  test('rules and sets that are gone together both come back', async () => {
    const { kernel, run } = await large();
    for (const family of PLAN_CONFIG.families) await kernel.removeRules(planRules(PLAN_CONFIG, family));
    for (const set of await kernel.getSets()) kernel.put({ kind: 'destroy-set', set });
    const [full] = await wholeCheck(run);
    expect(full).toMatchObject({ kind: 'full', ok: true, rulesRepaired: true });
    expect(full!.drift.get('create-set')).toBeGreaterThan(20);
    expect(total((await wholeCheck(run))[0])).toBe(0);
  });
});

describe('two services that want one virtual server', () => {
  test('the first by name has it; the other is named once, and again only when the conflict is a new one', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = new Reconciling(kernel);
    const a = service('a', '10.96.0.1', { externalIPs: ['203.0.113.9'] });
    const b = service('b', '10.96.0.2', { externalIPs: ['203.0.113.9'] });
    const warnings = (): string[] => run.log.lines.filter((line) => line.includes('wanted by two services'));
    await run.take(...listed([b, a], [slice('a', ['10.244.0.1']), slice('b', ['10.244.0.2'])]));
    expect((await ipvs(kernel))['TCP 203.0.113.9:80']).toEqual(['10.244.0.1:8080 1']);
    await run.pass(30_000);
    expect(warnings()).toHaveLength(1);
    expect(warnings()[0]).toContain('TCP 203.0.113.9:80 is wanted by two services and served for default/a only');
    await run.take({ kind: 'service', event: { type: 'deleted', object: { namespace: 'default', name: 'a' } } });
    expect((await ipvs(kernel))['TCP 203.0.113.9:80']).toEqual(['10.244.0.2:8080 1']);
    await run.pass(30_000);
    await run.take({ kind: 'service', event: { type: 'applied', object: a } });
    await run.pass(30_000);
    expect(warnings()).toHaveLength(2);
  });
});

describe('failure', () => {
  test('one object that fails is named, retried with back-off, and stops nothing else', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    kernel.failOps((op) => (op.kind === 'bind-address' && formatIp(op.address) === '10.96.0.10' ? 12 : undefined));
    const run = new Reconciling(kernel);
    const first = await run.take(...listed([WEB, service('other', '10.96.0.11')], [WEB_SLICE]));
    expect(first.ok).toBe(true);
    expect(first.failures.map(({ op, code }) => `${formatOp(op)} ${code}`)).toEqual(['bind-address 10.96.0.10 ENOMEM']);
    expect((await kernel.getBoundAddresses()).map(formatIp)).toEqual(['10.96.0.11']);
    expect(run.log.lines.filter((line) => line.startsWith('error')).join()).toContain(
      'bind-address 10.96.0.10: ENOMEM',
    );

    expect(run.clock.nextIn).toBe(1_000);
    expect((await run.pass(1_000)).failures).toHaveLength(1);
    expect(run.clock.nextIn).toBe(2_000);
    kernel.recover();
    expect((await run.pass(2_000)).failures).toEqual([]);
    expect((await kernel.getBoundAddresses()).map(formatIp)).toContain('10.96.0.10');
    expect(run.clock.nextIn).toBe(27_000);
  });

  test('a kernel that cannot be read fails the sync, and the next one reads everything', async () => {
    const { kernel, run } = await started();
    kernel.failMethod('findVirtualServers', 'EIO');
    const failed = await run.take(sliceChange(['10.244.0.9']));
    expect(failed).toMatchObject({ ok: false });
    kernel.recover();
    const report = await run.pass(1_000);
    expect(report).toMatchObject({ kind: 'full', ok: true });
    expect(await ipvs(kernel)).toEqual({ 'TCP 10.96.0.10:80': ['10.244.0.9:8080 1'] });
  });

  test('a virtual server whose source ranges cannot be put in force is not served', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    kernel.failOps((op) => (op.kind === 'add-entry' && op.set.name === 'KUBE-LOAD-BALANCER-FW' ? 28 : undefined));
    const run = new Reconciling(kernel);
    const guarded = service('guarded', '10.96.0.20', {
      type: 'LoadBalancer',
      loadBalancerIngress: [{ ip: '203.0.113.20' }],
      loadBalancerSourceRanges: ['198.51.100.0/24'],
    });
    await run.take(...listed([guarded], []));
    expect(Object.keys(await ipvs(kernel))).toEqual(['TCP 10.96.0.20:80']);
    kernel.recover();
    await run.pass(1_000);
    await run.pass(29_000);
    expect(Object.keys(await ipvs(kernel))).toContain('TCP 203.0.113.20:80');
  });

  test.each([
    ['another attempt', (run: Reconciling) => run.pass(1_000)],
    [
      'a full check',
      async (run: Reconciling) => {
        await run.pass(1_000);
        const { kind } = await run.pass(0);
        if (kind !== 'full') throw new Error(`a ${kind} sync instead of a full check`);
      },
    ],
    ['a change of its endpoints', (run: Reconciling) => run.take(sliceChange(['10.244.0.9'], 'guarded'))],
  ] satisfies [string, (run: Reconciling) => Promise<unknown>][])(
    'nor does %s serve it without them',
    async (_what, next) => {
      const kernel = new FakeKernel();
      await kernel.prepare();
      const isDeny = (op: Op): boolean => op.kind === 'add-entry' && op.set.name === 'KUBE-LOAD-BALANCER-FW';
      kernel.failOps((op) => (isDeny(op) ? 28 : undefined));
      const run = new Reconciling(kernel);
      const guarded = service('guarded', '10.96.0.20', {
        type: 'LoadBalancer',
        loadBalancerIngress: [{ ip: '203.0.113.20' }],
        loadBalancerSourceRanges: ['198.51.100.0/24'],
      });
      await run.take(...listed([guarded], [slice('guarded', ['10.244.0.5'])]));
      const before = kernel.applied.length;
      await next(run);
      const added = kernel.applied.slice(before).filter((op) => op.kind === 'add-virtual-server');
      expect(added).toEqual([]);
      kernel.recover();
      await run.pass(30_000);
      const [deny, virtualServer] = [isDeny, (op: Op) => op.kind === 'add-virtual-server'].map((is) =>
        kernel.applied.slice(before).findIndex(is),
      );
      expect(deny).toBeGreaterThanOrEqual(0);
      expect(virtualServer).toBeGreaterThan(deny ?? Infinity);
    },
  );
});

describe('draining', () => {
  test('weight 0 while there are connections, then gone; wanted again: the weight comes back', async () => {
    const { kernel, run } = await started();
    kernel.setObserved(id('10.96.0.10'), real('10.244.0.6'), { activeConnections: 3 });
    await run.take(sliceChange(['10.244.0.5']));
    expect(await ipvs(kernel)).toEqual({ 'TCP 10.96.0.10:80': ['10.244.0.5:8080 1', '10.244.0.6:8080 0'] });
    expect(run.reports.at(-1)?.draining).toBe(1);

    await run.take(sliceChange(['10.244.0.5', '10.244.0.6']));
    expect(await ipvs(kernel)).toEqual({ 'TCP 10.96.0.10:80': ['10.244.0.5:8080 1', '10.244.0.6:8080 1'] });
    expect(run.reports.at(-1)?.draining).toBe(0);

    await run.take(sliceChange(['10.244.0.5']));
    kernel.setObserved(id('10.96.0.10'), real('10.244.0.6'), { activeConnections: 0 });
    const report = await run.pass(5_000);
    expect(report.kind).toBe('change');
    expect(await ipvs(kernel)).toEqual({ 'TCP 10.96.0.10:80': ['10.244.0.5:8080 1'] });
  });

  test('a deadline ends it, when it is due and not at the next look', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = new Reconciling(kernel, { drainTimeoutMs: 8_000 });
    await run.take(...listed([WEB], [WEB_SLICE]));
    kernel.setObserved(id('10.96.0.10'), real('10.244.0.6'), { activeConnections: 3 });
    await run.take(sliceChange([endpoint('10.244.0.5')]));
    await run.pass(5_000);
    expect(run.reports.at(-1)?.draining).toBe(1);
    expect(run.clock.nextIn).toBe(3_000);
    await run.pass(3_000);
    expect(await ipvs(kernel)).toEqual({ 'TCP 10.96.0.10:80': ['10.244.0.5:8080 1'] });
  });
});
