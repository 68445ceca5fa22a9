import { describe, expect, jest, test } from '@jest/globals';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { formatCidr, parseCidr } from '../../../src/base/cidr.ts';
import { type IpAddress, formatIp, parseIp } from '../../../src/base/ip.ts';
import { KernelError } from '../../../src/kernel/kernel-error.ts';
import { namespacedName } from '../../../src/base/service/names.ts';
import { toPort } from '../../../src/base/port.ts';
import type { EndpointSlice, Service } from '../../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import { planRules } from '../../../src/plan/ipvs/plan-rules.ts';
import type { RuleSet } from '../../../src/state/rules/rule-set.ts';
import { plannedSet } from '../../../src/state/set-roles.ts';
import { formatIpSetEntry } from '../../../src/state/ip-set.ts';
import { type Op, countsInWords, formatOp } from '../../../src/state/op.ts';
import { type VirtualServerId, formatVirtualServer } from '../../../src/state/virtual-server.ts';
import { type RealServer, formatRealServer } from '../../../src/state/real-server.ts';
import { afterRead } from '../../support/after-read.ts';
import { boundAddresses } from '../../support/bound-addresses.ts';
import { endpoint, listed, port, service, slice } from '../../support/objects.ts';
import { PLAN_CONFIG, Reconciling } from '../../support/reconciling.ts';
import type { SyncReport } from '../../../src/state/sync-report.ts';

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
const CHAINS_OF_OTHERS = [{ table: 'nat', name: 'KUBE-SERVICES', rules: [['-j', 'KUBE-SVC-ABC']] }] as const;

/** A kernel in which another program has rules in our chains. */
async function kernelWithRulesOfOthers(): Promise<FakeKernel> {
  const kernel = new FakeKernel();
  await kernel.prepare();
  await kernel.ensureRules({ family: 4, chains: CHAINS_OF_OTHERS, jumps: [] });
  return kernel;
}

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

  test('local routes are added after the virtual servers; no address is bound', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = new Reconciling(kernel, { plan: light });
    await run.take(...listed([WEB], [WEB_SLICE]));
    expect(lines(kernel)).toEqual([
      'add-virtual-server TCP 10.96.0.10:80 lc flags=0 timeout=0',
      'add-route 10.96.0.0/12',
      'add-route fd00:96::/112',
    ]);
    expect(await kernel.getBoundAddresses()).toEqual([]);
  });

  test('local routes replace addresses and the reverse: each is added before the other is removed', async () => {
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

  test('deleted local routes are drift and repaired; one that fails is retried', async () => {
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
    expect(countsInWords(check.drift)).toEqual(['1 x add-route']);
    expect((await routes(kernel)).toSorted()).toEqual(['10.96.0.0/12', 'fd00:96::/112']);
  });

  test('local routes are not read by each check if none is configured', async () => {
    const { kernel, run } = await started();
    expect(kernel.calls.get('getLocalRoutes')).toBe(1);
    await run.pass(30_000);
    expect(kernel.calls.get('getLocalRoutes')).toBe(1);
  });
});

describe('first sync', () => {
  test('the first sync programs a ClusterIP in order: set entry, virtual server, address', async () => {
    const { kernel, run } = await started();
    expect(run.reports[0]).toMatchObject({ kind: 'first', ok: true, failures: [] });
    expect(await ipvs(kernel)).toEqual({ 'TCP 10.96.0.10:80': ['10.244.0.5:8080 1', '10.244.0.6:8080 1'] });
    expect((await boundAddresses(kernel)).map(formatIp)).toEqual(['10.96.0.10']);
    const order = kernel.applied.map(formatOp).filter((line) => !line.startsWith('create-set'));
    expect(order).toEqual([
      'add-entry KUBE-CLUSTER-IP 10.96.0.10,tcp:80',
      'add-entry KUBE-IPVS-IPS 10.96.0.10',
      'add-virtual-server TCP 10.96.0.10:80 lc flags=0 timeout=0',
      'add-real-server TCP 10.96.0.10:80 -> 10.244.0.6:8080 weight=1',
      'add-real-server TCP 10.96.0.10:80 -> 10.244.0.5:8080 weight=1',
      'bind-address 10.96.0.10',
    ]);
  });

  test('KUBE-NODE-PORT-IP is filled before the rules that refer to it are written', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    kernel.setNodeAddresses([{ address: ip('192.168.9.1'), prefix: 24, interfaceName: 'eth0', tentative: false }]);
    const filled: string[][] = [];
    const addRules = kernel.addRules.bind(kernel);
    kernel.addRules = async (rules) => {
      filled.push(kernel.applied.map(formatOp).filter((line) => line.startsWith('add-entry')));
      return await addRules(rules);
    };
    await new Reconciling(kernel).take(...listed([WEB], [WEB_SLICE]));
    expect(filled[0]).toEqual(['add-entry KUBE-NODE-PORT-IP 192.168.9.1']);
  });

  test('rules that translate are replaced when all virtual servers exist; those with source ranges wait for the rules that deny', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    for (const family of [4, 6] as const) {
      const chains = [{ table: 'nat' as const, name: 'KUBE-SERVICES', rules: [['-j', 'KUBE-SVC-ABC']] }];
      await kernel.ensureRules({ family, chains, jumps: [] });
    }
    const left = { ...id('10.96.0.99'), scheduler: 'rr', flags: 0, timeout: 0, prefix: 32 };
    kernel.put({ kind: 'add-virtual-server', virtualServer: left });
    kernel.put({ kind: 'bind-address', address: left.address });
    const steps: string[] = [];
    const ensureRules = kernel.ensureRules.bind(kernel);
    kernel.ensureRules = async (rules) => {
      const translates = rules.chains.some(({ table }) => table === 'nat');
      const which = translates ? 'all rules' : 'rules that deny';
      steps.push(...kernel.applied.splice(0).map(formatOp), `${which}, IPv${rules.family}`);
      return await ensureRules(rules);
    };
    const vip = service('vip', '10.96.0.11', {
      type: 'LoadBalancer',
      loadBalancerIngress: [{ ip: '203.0.113.1', ipMode: 'VIP' }],
      loadBalancerSourceRanges: ['10.0.0.0/8'],
    });
    await new Reconciling(kernel).take(...listed([WEB, vip], [WEB_SLICE, slice('vip', ['10.244.0.7'])]));
    steps.push(...kernel.applied.map(formatOp));
    const about = steps.filter((line) => /rules|virtual-server|real-server|bind-address/.test(line));
    expect(about).toEqual([
      'add-virtual-server TCP 10.96.0.10:80 lc flags=0 timeout=0',
      'add-virtual-server TCP 10.96.0.11:80 lc flags=0 timeout=0',
      'add-real-server TCP 10.96.0.10:80 -> 10.244.0.6:8080 weight=1',
      'add-real-server TCP 10.96.0.10:80 -> 10.244.0.5:8080 weight=1',
      'add-real-server TCP 10.96.0.11:80 -> 10.244.0.7:8080 weight=1',
      'bind-address 10.96.0.10',
      'bind-address 10.96.0.11',
      'bind-address 203.0.113.1',
      'rules that deny, IPv4',
      'rules that deny, IPv6',
      'add-virtual-server TCP 203.0.113.1:80 lc flags=0 timeout=0',
      'add-real-server TCP 203.0.113.1:80 -> 10.244.0.7:8080 weight=1',
      'all rules, IPv4',
      'all rules, IPv6',
      'unbind-address 10.96.0.99',
      'delete-virtual-server TCP 10.96.0.99:80',
    ]);
    expect(await kernel.addRules(planRules(PLAN_CONFIG, 4))).toBe(true);
  });

  test('as long as operations cannot be tried, the rules of others stay, and the first sync has not succeeded', async () => {
    const kernel = await kernelWithRulesOfOthers();
    const apply = kernel.apply.bind(kernel);
    let isStopped = true;
    kernel.apply = async (tx) => {
      if (!isStopped || tx.of('add-virtual-server').length === 0) return await apply(tx);
      const failures = Array.from(tx, (op) => ({ op, errno: 0, code: 'CLOSED', text: '' }));
      return { failures, stopped: 'the socket is closed' };
    };
    const run = new Reconciling(kernel);
    expect(await run.take(...listed([WEB], [WEB_SLICE]))).toMatchObject({ kind: 'first', ok: false });
    expect(kernel.rules(4)?.chains).toEqual(CHAINS_OF_OTHERS);
    isStopped = false;
    expect(await run.pass(run.clock.nextIn ?? 0)).toMatchObject({ kind: 'first', ok: true });
    expect(await kernel.addRules(planRules(PLAN_CONFIG, 4))).toBe(true);
  });

  test('while the rules of one IP family cannot be written, the other one is served, and the first sync is retried', async () => {
    const kernel = await kernelWithRulesOfOthers();
    const addRules = kernel.addRules.bind(kernel);
    let isUnreadable = true;
    kernel.addRules = async (rules) => {
      if (isUnreadable && rules.family === 6) throw new KernelError('iptables', 'UNREADABLE', 'filter is not printed');
      return await addRules(rules);
    };
    const six = service('six', 'fd00::6', { clusterIPs: ['fd00::6'], ipFamilies: ['IPv6'] });
    const run = new Reconciling(kernel);
    const served = async (): Promise<readonly string[]> =>
      (await kernel.getVirtualServers()).map(({ address }) => formatIp(address));
    expect(await run.take(...listed([WEB, six], [WEB_SLICE, slice('six', ['fd01::6'])]))).toMatchObject({
      kind: 'first',
      ok: false,
      error: expect.objectContaining({ message: expect.stringContaining('filter is not printed') }),
    });
    expect(await served()).toEqual(['10.96.0.10']);
    expect(await kernel.addRules(planRules(PLAN_CONFIG, 4))).toBe(true);
    expect(kernel.rules(6)).toBeUndefined();
    const more = { kind: 'service', event: { type: 'applied', object: service('more', '10.96.0.11') } } as const;
    expect(await run.take(more)).toMatchObject({ kind: 'first', ok: false });
    expect(await served()).toEqual(['10.96.0.10', '10.96.0.11']);
    isUnreadable = false;
    expect(await run.pass(run.clock.nextIn ?? 0)).toMatchObject({ kind: 'first', ok: true });
    expect(await served()).toEqual(['10.96.0.10', '10.96.0.11', 'fd00::6']);
  });

  test.each(['all rules', 'rules that deny'])(
    'while %s of others cannot be replaced for one IP family, they are for the other one, and nothing of the first is removed',
    async (refused) => {
      const kernel = new FakeKernel();
      await kernel.prepare();
      for (const family of [4, 6] as const) await kernel.ensureRules({ family, chains: CHAINS_OF_OTHERS, jumps: [] });
      for (const [address, prefix] of [
        ['10.96.0.99', 32],
        ['fd00::99', 128],
      ] as const) {
        const left = { ...id(address), scheduler: 'rr', flags: 0, timeout: 0, prefix };
        kernel.put({ kind: 'add-virtual-server', virtualServer: left });
        kernel.put({ kind: 'bind-address', address: left.address });
      }
      const vip = (name: string, clusterIp: string, ingress: string, range: string): Service =>
        service(name, clusterIp, {
          type: 'LoadBalancer',
          loadBalancerIngress: [{ ip: ingress, ipMode: 'VIP' }],
          loadBalancerSourceRanges: [range],
          ipFamilies: [clusterIp.includes(':') ? 'IPv6' : 'IPv4'],
        });
      const ensureRules = kernel.ensureRules.bind(kernel);
      let isRefused = true;
      kernel.ensureRules = async (rules) => {
        const which = rules.chains.some(({ table }) => table === 'nat') ? 'all rules' : 'rules that deny';
        if (isRefused && rules.family === 4 && which === refused) throw new KernelError('iptables', 'LOCKED', 'lock');
        return await ensureRules(rules);
      };
      const run = new Reconciling(kernel);
      const report = await run.take(
        ...listed(
          [
            WEB,
            vip('four', '10.96.0.11', '203.0.113.1', '10.0.0.0/8'),
            vip('six', 'fd00::6', '2001:db8::1', 'fd01::/16'),
          ],
          [WEB_SLICE, slice('four', ['10.244.0.7']), slice('six', ['fd01::7'])],
        ),
      );
      expect(report).toMatchObject({ kind: 'first', ok: false, error: expect.objectContaining({ message: 'lock' }) });
      const served = Object.keys(await ipvs(kernel));
      // Without the rules that deny, a load balancer IP with source ranges is not served.
      expect(served.includes('TCP 203.0.113.1:80')).toBe(refused === 'all rules');
      expect(served).toEqual(
        expect.arrayContaining(['TCP 10.96.0.10:80', 'TCP 10.96.0.99:80', 'TCP [2001:db8::1]:80']),
      );
      expect(served).not.toContain('TCP [fd00::99]:80');
      expect(await kernel.addRules(planRules(PLAN_CONFIG, 6))).toBe(true);
      isRefused = false;
      expect(await run.pass(run.clock.nextIn ?? 0)).toMatchObject({ kind: 'first', ok: true });
      const all = Object.keys(await ipvs(kernel));
      expect(all).toContain('TCP 203.0.113.1:80');
      expect(all).not.toContain('TCP 10.96.0.99:80');
      expect(await kernel.addRules(planRules(PLAN_CONFIG, 4))).toBe(true);
    },
  );

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

  test('the first sync adopts existing objects: it repairs weight, scheduler and flags, and keeps foreign virtual servers', async () => {
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

  test('the first sync removes leftovers of a Service that was deleted while the daemon was stopped', async () => {
    const { kernel } = await started();
    await new Reconciling(kernel).take(...listed([service('other', '10.96.0.11')], []));
    expect(Object.keys(await ipvs(kernel))).toEqual(['TCP 10.96.0.11:80']);
    expect((await boundAddresses(kernel)).map(formatIp)).toEqual(['10.96.0.11']);
  });
});

describe('default/kubernetes before the lists', () => {
  const API = service('kubernetes', '10.96.0.1');
  const API_SLICE = slice('kubernetes', ['192.168.9.2', '192.168.9.3']);
  const ADDED = [
    'add-entry KUBE-CLUSTER-IP 10.96.0.1,tcp:80',
    'add-entry KUBE-IPVS-IPS 10.96.0.1',
    'add-virtual-server TCP 10.96.0.1:80 lc flags=0 timeout=0',
    'add-real-server TCP 10.96.0.1:80 -> 192.168.9.3:8080 weight=1',
    'add-real-server TCP 10.96.0.1:80 -> 192.168.9.2:8080 weight=1',
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

  test('bootstrap programs default/kubernetes with its rules and sets, once, and no sync is counted', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = await ahead(kernel);
    expect(programmed(kernel)).toEqual(ADDED);
    expect(await kernel.ensureRules(planRules(PLAN_CONFIG, 4))).toMatchObject({ changed: false });
    // A program is to be started, and nothing waits for it yet.
    const sets = (await kernel.getSets()).map((set) => set.name);
    expect(sets.filter((name) => name.startsWith('KUBE-6-'))).toEqual([]);
    await expect(kernel.ensureRules(planRules(PLAN_CONFIG, 6))).rejects.toMatchObject({ code: 'ENOENT' });
    run.reconciler.clusterChanged();
    await settle();
    expect(programmed(kernel)).toEqual(ADDED);
    expect(run.reports).toEqual([]);
    expect(run.log.lines).toEqual(['info: default/kubernetes is served; listing the other services']);
  });

  test('the first sync adopts it, and removes endpoints that are outdated by then', async () => {
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

  test('bootstrap only adds: objects of an earlier run keep their weights and flags', async () => {
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

  test('bootstrap writes nothing if the kernel has default/kubernetes already', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    await new Reconciling(kernel).take(...listed([API, WEB], [API_SLICE, WEB_SLICE]));
    const { writes } = kernel.counters;
    await ahead(kernel);
    expect(kernel.counters.writes).toBe(writes);
  });

  test('bootstrap does nothing if our chains hold other rules', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const theirs: RuleSet = {
      family: 4,
      chains: [{ table: 'nat', name: 'KUBE-SERVICES', rules: [['-j', 'KUBE-SVC-ABC']] }],
      jumps: [],
    };
    await kernel.ensureRules(theirs);
    const run = await ahead(kernel);
    expect(await kernel.ensureRules(theirs)).toMatchObject({ changed: false });
    expect(programmed(kernel)).toEqual([]);
    const report = await run.take(...listed([API], [API_SLICE]));
    expect(report).toMatchObject({ kind: 'first', ok: true });
    expect(programmed(kernel)).toEqual(ADDED);
  });

  test.each([
    ['its endpoints are not known', lookedUp().slice(0, 1)],
    ['the service is not known', lookedUp().slice(1)],
    ['the services are listed without it', [listed([WEB], [])[1]!, ...lookedUp().slice(1)]],
  ])('bootstrap writes nothing if %s', async (_what, events) => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const { writes } = kernel.counters;
    await ahead(kernel, events);
    expect(kernel.counters.writes).toBe(writes);
  });

  test.each(['getNodeAddresses', 'findVirtualServers', 'getSets', 'addRules', 'apply'] as const)(
    'in bootstrap, a failure of %s is logged at debug level only, and the first sync does all of it',
    async (method) => {
      const kernel = new FakeKernel();
      await kernel.prepare();
      kernel.failMethod(method, 'EIO');
      const run = await ahead(kernel);
      expect(run.log.lines).toEqual([
        expect.stringMatching(/^debug: default\/kubernetes is not served before the first sync: /),
      ]);
      kernel.recover();
      const report = await run.take(...listed([API], [API_SLICE]));
      expect(report).toMatchObject({ kind: 'first', ok: true, failures: [] });
      expect(await ipvs(kernel)).toEqual({ 'TCP 10.96.0.1:80': ['192.168.9.2:8080 1', '192.168.9.3:8080 1'] });
    },
  );
});

describe('change sync', () => {
  test('the cost of a change follows its size: a new endpoint is one operation, and only its virtual server is read', async () => {
    const { kernel, run } = await started();
    kernel.applied.length = 0;
    const calls = new Map(kernel.calls);
    const report = await run.take(sliceChange(['10.244.0.5', '10.244.0.6', '10.244.0.7']));
    expect(report.kind).toBe('change');
    expect(kernel.applied.map(formatOp)).toEqual(['add-real-server TCP 10.96.0.10:80 -> 10.244.0.7:8080 weight=1']);
    for (const call of ['findVirtualServers', 'getRealServers', 'apply']) calls.set(call, (calls.get(call) ?? 0) + 1);
    expect(new Map(kernel.calls)).toEqual(calls);
  });

  test('a removed endpoint: only its virtual server is read', async () => {
    const { kernel, run } = await started();
    kernel.applied.length = 0;
    const dumps = kernel.calls.get('getVirtualServers');
    const found = kernel.calls.get('findVirtualServers') ?? 0;
    await run.take(sliceChange(['10.244.0.5']));
    expect(kernel.applied.map(formatOp)).toEqual(['delete-real-server TCP 10.96.0.10:80 -> 10.244.0.6:8080 weight=0']);
    expect(kernel.calls.get('getVirtualServers')).toBe(dumps);
    expect(kernel.calls.get('findVirtualServers')).toBe(found + 1);
  });

  test('a new endpoint of a virtual server that another process deleted: the same sync restores both', async () => {
    const { kernel, run } = await started();
    kernel.put({ kind: 'delete-virtual-server', id: id('10.96.0.10') });
    const report = await run.take(sliceChange(['10.244.0.5', '10.244.0.6', '10.244.0.7']));
    expect(report).toMatchObject({ kind: 'change', ok: true, failures: [] });
    const servers = ['10.244.0.5:8080 1', '10.244.0.6:8080 1', '10.244.0.7:8080 1'];
    expect(await ipvs(kernel)).toEqual({ 'TCP 10.96.0.10:80': servers });
    expect(run.log.lines.filter((line) => line.startsWith('error'))).toEqual([]);
  });

  test('a new endpoint that exists already gets its weight', async () => {
    const { kernel, run } = await started();
    kernel.put({ kind: 'add-real-server', id: id('10.96.0.10'), realServer: real('10.244.0.7', 0) });
    await run.take(sliceChange(['10.244.0.5', '10.244.0.6', '10.244.0.7']));
    expect((await ipvs(kernel))['TCP 10.96.0.10:80']).toContain('10.244.0.7:8080 1');
  });

  test('a new endpoint that the kernel refuses is reported once and retried', async () => {
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

  test('a change sync visits no other Service, neither for UDP flows nor for health checks', async () => {
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
    expect(plan.healthChecks.get(namespacedName('default', 'checked'))?.localEndpoints).toEqual({ 4: 1 });
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

  test('an address that two services share stays until the second is deleted', async () => {
    const shared = { type: 'LoadBalancer', externalIPs: ['203.0.113.9'] };
    const a = service('a', '10.96.0.1', { ...shared, ports: [port(80)] });
    const b = service('b', '10.96.0.2', { ...shared, ports: [port(81)] });
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = new Reconciling(kernel);
    await run.take(...listed([a, b], []));
    await run.take({ kind: 'service', event: { type: 'deleted', object: { namespace: 'default', name: 'a' } } });
    expect((await boundAddresses(kernel)).map(formatIp)).toContain('203.0.113.9');
    await run.take({ kind: 'service', event: { type: 'deleted', object: { namespace: 'default', name: 'b' } } });
    expect(await kernel.getBoundAddresses()).toEqual([]);
  });
});

describe('node addresses', () => {
  const onNode = (...texts: string[]): Parameters<FakeKernel['setNodeAddresses']>[0] =>
    texts.map((text) => ({ address: ip(text), prefix: 24, interfaceName: 'eth0', tentative: false }));

  test('a change sync moves node ports when an address is added or removed; a link-local one costs one read', async () => {
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
  test('a full check with nothing to repair writes nothing', async () => {
    const { kernel, run } = await started();
    const { writes } = kernel.counters;
    const report = await run.pass(30_000);
    expect(report).toMatchObject({ kind: 'full', ok: true });
    expect(report.operations.size).toBe(0);
    expect(kernel.counters.writes).toBe(writes);
  });

  test('a full check repairs drift and counts it', async () => {
    const { kernel, run } = await started();
    kernel.put({ kind: 'delete-virtual-server', id: id('10.96.0.10') });
    kernel.put({ kind: 'unbind-address', address: ip('10.96.0.10') });
    const report = await run.pass(30_000);
    expect(countsInWords(report.drift)).toEqual(['1 x add-virtual-server', '2 x add-real-server', '1 x bind-address']);
    expect(Object.keys(await ipvs(kernel))).toEqual(['TCP 10.96.0.10:80']);
    expect(run.log.lines.join('\n')).toContain('kernel state differed from the plan');
  });

  test('a pending change is not counted as drift', async () => {
    const { run } = await started();
    run.cluster.apply(sliceChange(['10.244.0.9']));
    const report = await run.pass(30_000);
    expect(report.kind).toBe('full');
    expect(report.drift).toEqual([]);
    expect(report.operations.get('add-real-server')).toBe(1);
  });
});

describe('a change during a full check', () => {
  /** `act` is done when real servers have been read for the n-th time from now; answers whether that has come. */
  function whenReadAgain(kernel: FakeKernel, n: number, act: () => void): () => boolean {
    let left = n;
    afterRead(kernel, (read) => {
      if (read === 'confirmRealServers' && --left === 0) act();
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

  test('a change during a full check is synced before the check is finished, in a separate sync', async () => {
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
    // The batch under way was finished, and no other started: the change read its own virtual server.
    expect(readBefore).toBe(readLater + 1);
    expect(kernel.calls.get('confirmRealServers')).toBeGreaterThan(2);
    expect(Object.fromEntries(reports[0]!.operations)).toEqual({ 'add-real-server': 1 });
    expect([total(reports[1]), reports[1]!.drift.length]).toEqual([0, 0]);
    expect((await ipvs(kernel))[`TCP ${clusterIp(250)}:80`]).toHaveLength(3);
  });

  test('a change during a full check waits for the minimum sync period', async () => {
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

  test('a change during a full check is not drift, although the check has read the earlier state', async () => {
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
    expect([full!.kind, total(full), full!.drift.length]).toEqual(['full', 0, 0]);
  });

  test('a service that is added again while the check would delete its leftovers stays', async () => {
    const { kernel, run } = await large();
    // Another program created everything that a Service of ours would have, but no Service requires it.
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
    expect((await boundAddresses(kernel)).map(formatIp)).toContain('10.96.9.9');
    const set = (await kernel.getSets()).find(({ name }) => name === 'KUBE-CLUSTER-IP');
    expect(set?.entries.map(formatIpSetEntry)).toContain('10.96.9.9,tcp:80');
  });

  test('the check yields to the event loop between two batches once its time is used up', async () => {
    const { kernel, run } = await large();
    let turns = 0;
    let counting = setImmediate(function count() {
      turns += 1;
      counting = setImmediate(count);
    });
    const seen: number[] = [];
    afterRead(kernel, (read) => {
      if (read === 'confirmRealServers') seen.push(turns);
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

  test('a change that cannot be written aborts the full check, and the next one reads everything', async () => {
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

  test('rules and sets that were deleted together are both restored', async () => {
    const { kernel, run } = await large();
    for (const family of PLAN_CONFIG.families) await kernel.removeRules(planRules(PLAN_CONFIG, family));
    for (const set of await kernel.getSets()) kernel.put({ kind: 'destroy-set', set });
    const [full] = await wholeCheck(run);
    expect(full).toMatchObject({ kind: 'full', ok: true });
    expect(run.rulesRepaired).toBe(PLAN_CONFIG.families.length);
    expect(full!.drift.filter(({ kind }) => kind === 'create-set').length).toBeGreaterThan(20);
    expect(total((await wholeCheck(run))[0])).toBe(0);
  });
});

describe('two services that claim one virtual server', () => {
  const isDeny = (op: Op): boolean => op.kind === 'add-entry' && op.set.name === 'KUBE-LOAD-BALANCER-FW';
  const SHARED = 'TCP 203.0.113.9:80';
  const entriesOf = async (kernel: FakeKernel, set: string): Promise<string[]> =>
    (await kernel.getSets()).filter(({ name }) => name === set).flatMap(({ entries }) => entries.map(formatIpSetEntry));
  const applied = (object: Service): SourceEvent => ({ kind: 'service', event: { type: 'applied', object } });
  const gone = (name: string): SourceEvent => ({
    kind: 'service',
    event: { type: 'deleted', object: { namespace: 'default', name } },
  });
  const newKernel = async (): Promise<FakeKernel> => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    return kernel;
  };
  /** The later claimant lets in only its own source ranges; the first one everybody. */
  const open = service('open', '10.96.0.1', {
    creationTimestamp: '2024-01-01T00:00:00Z',
    type: 'LoadBalancer',
    loadBalancerIngress: [{ ip: '203.0.113.9' }],
  });
  const restricted = service('restricted', '10.96.0.2', {
    creationTimestamp: '2024-01-02T00:00:00Z',
    type: 'LoadBalancer',
    loadBalancerIngress: [{ ip: '203.0.113.9' }],
    loadBalancerSourceRanges: ['198.51.100.0/24'],
  });

  test('the older of two Services gets the virtual server; the other is logged once, and again only for a new conflict', async () => {
    const kernel = await newKernel();
    const run = new Reconciling(kernel);
    const old = service('z', '10.96.0.1', {
      creationTimestamp: '2024-01-01T00:00:00Z',
      externalIPs: ['203.0.113.9'],
    });
    const young = service('b', '10.96.0.2', {
      creationTimestamp: '2024-01-01T00:00:01Z',
      externalIPs: ['203.0.113.9'],
    });
    const warnings = (): string[] => run.log.lines.filter((line) => line.includes('claimed by two services'));
    await run.take(...listed([young, old], [slice('z', ['10.244.0.1']), slice('b', ['10.244.0.2'])]));
    expect((await ipvs(kernel))[SHARED]).toEqual(['10.244.0.1:8080 1']);
    await run.pass(30_000);
    expect(warnings()).toEqual([
      `warn: ${SHARED} is claimed by two services and served only for default/z: change the address or port of one of them`,
    ]);
    await run.take(gone('z'));
    expect((await ipvs(kernel))[SHARED]).toEqual(['10.244.0.2:8080 1']);
    await run.pass(30_000);
    await run.take(applied(old));
    await run.pass(30_000);
    expect(warnings()).toHaveLength(2);
  });

  test('a ClusterIP is not taken over by an externalIP, however old; nor is a health check port by a younger service', async () => {
    const kernel = await newKernel();
    const run = new Reconciling(kernel);
    const thief = service('athief', '10.96.0.2', {
      creationTimestamp: '2020-01-01T00:00:00Z',
      externalIPs: ['10.96.0.10'],
    });
    await run.take(...listed([WEB, thief], [WEB_SLICE, slice('athief', ['10.244.0.66'])]));
    expect((await ipvs(kernel))['TCP 10.96.0.10:80']).toEqual(['10.244.0.5:8080 1', '10.244.0.6:8080 1']);
    expect(await entriesOf(kernel, 'KUBE-EXTERNAL-IP')).toEqual([]);
    const checked = (name: string, ip: string, creationTimestamp: string): Service =>
      service(name, ip, {
        creationTimestamp,
        type: 'LoadBalancer',
        externalTrafficPolicy: 'Local',
        healthCheckNodePort: 32_000,
      });
    await run.take(applied(checked('b', '10.96.0.3', '2024-01-02T00:00:00Z')));
    await run.take(applied(checked('c', '10.96.0.4', '2024-01-01T00:00:00Z')));
    expect([...run.reconciler.plan.healthChecks.keys()]).toEqual(['default/c']);
    expect(run.log.lines.join('\n')).toContain('health check port 32000 is claimed by two services');
    await run.take(gone('c'));
    expect(run.reports.at(-1)).toMatchObject({ healthChecksChanged: true });
    expect([...run.reconciler.plan.healthChecks.keys()]).toEqual(['default/b']);
    expect(await entriesOf(kernel, 'KUBE-HEALTH-CHECK-NODE-PORT')).toEqual(['32000']);
  });

  test('when the winner of a virtual server is deleted, the other Service gets it, its source ranges before its real servers', async () => {
    const kernel = await newKernel();
    const run = new Reconciling(kernel);
    await run.take(...listed([open, restricted], [slice('open', ['10.244.0.1']), slice('restricted', ['10.244.0.2'])]));
    expect(await entriesOf(kernel, 'KUBE-LOAD-BALANCER-FW')).toEqual([]);
    kernel.applied.length = 0;
    await run.take(gone('open'));
    expect((await ipvs(kernel))[SHARED]).toEqual(['10.244.0.2:8080 1']);
    expect(await entriesOf(kernel, 'KUBE-LOAD-BALANCER-FW')).toEqual(['203.0.113.9,tcp:80']);
    const deny = kernel.applied.findIndex(isDeny);
    expect(deny).toBeGreaterThanOrEqual(0);
    expect(kernel.applied.findIndex((op) => op.kind === 'add-real-server')).toBeGreaterThan(deny);
    expect((await run.pass(30_000)).operations.size).toBe(0);
  });

  test.each([
    ['another attempt', (run: Reconciling) => run.pass(1_000)],
    ['a full check', (run: Reconciling) => run.pass(30_000)],
    ['a new endpoint', (run: Reconciling) => run.take(sliceChange(['10.244.0.2', '10.244.0.3'], 'restricted'))],
  ] satisfies [string, (run: Reconciling) => Promise<unknown>][])(
    'a virtual server whose source ranges cannot be enforced is removed, and not served by %s either',
    async (_what, next) => {
      const kernel = await newKernel();
      const run = new Reconciling(kernel);
      const slices = [slice('open', ['10.244.0.1']), slice('restricted', ['10.244.0.2'])];
      await run.take(...listed([open, restricted], slices));
      kernel.failOps((op) => (isDeny(op) ? 28 : undefined));
      await run.take(gone('open'));
      await next(run);
      expect((await ipvs(kernel))[SHARED]).toBeUndefined();
      kernel.recover();
      await run.pass(30_000);
      await run.pass(30_000);
      expect((await ipvs(kernel))[SHARED]).toContain('10.244.0.2:8080 1');
      expect(await entriesOf(kernel, 'KUBE-LOAD-BALANCER-FW')).toEqual(['203.0.113.9,tcp:80']);
    },
  );

  test('UDP flows of one Service are deleted when another Service gets its virtual server', async () => {
    const kernel = await newKernel();
    const run = new Reconciling(kernel);
    const udp = { ports: [port(53, { protocol: 'UDP' })], externalIPs: ['203.0.113.9'] };
    const ports = [{ name: '', protocol: 'UDP', port: 8080 }];
    await run.take(
      ...listed(
        [service('a', '10.96.0.1', udp), service('b', '10.96.0.2', udp)],
        [slice('b', ['10.244.0.2'], { ports })],
      ),
    );
    expect((await run.take(gone('a'))).flowCleanUps).not.toEqual([]);
  });

  test('of many conflicts the first few are logged and the others counted; unrelated changes cost nothing', async () => {
    const kernel = await newKernel();
    const warned: string[] = [];
    const run = new Reconciling(kernel, { onWarning: (name) => warned.push(name) });
    const ports = Array.from({ length: 50 }, (_, at) => port(1_000 + at, { name: `p${at}` }));
    const many = Array.from({ length: 200 }, (_, at) =>
      service(`s${at}`, `10.97.0.${at + 1}`, { externalIPs: ['203.0.113.9'], ports }),
    );
    await run.take(...listed([WEB, ...many], [WEB_SLICE]));
    const lines = run.log.lines.filter((line) => line.startsWith('warn'));
    expect(lines).toHaveLength(4);
    expect(lines[0]).toContain('49 more claims of this service are not served');
    expect(lines[3]).toContain(
      '196 more Services claim addresses or ports that belong to other Services, and are not served there: change these addresses or ports. In total, 9950 claims of 199 Services are not served',
    );
    expect(warned).toHaveLength(20);
    // Who changes something is not made to look through the others' claims.
    const asked = jest.spyOn(run.reconciler.plan, 'conflictsOf');
    await run.take(sliceChange(['10.244.0.9']));
    await run.pass(30_000);
    expect(asked).not.toHaveBeenCalled();
    await run.take(gone('s0'));
    expect(asked).toHaveBeenCalledTimes(1);
    expect(run.log.lines.filter((line) => line.startsWith('warn'))).toHaveLength(4);
  });
});

describe('failure', () => {
  test('an object that fails is logged by name, retried with back-off, and does not affect others', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    kernel.failOps((op) => (op.kind === 'bind-address' && formatIp(op.address) === '10.96.0.10' ? 12 : undefined));
    const run = new Reconciling(kernel);
    const first = await run.take(...listed([WEB, service('other', '10.96.0.11')], [WEB_SLICE]));
    expect(first.ok).toBe(true);
    expect(first.failures.map(({ op, code }) => `${formatOp(op)} ${code}`)).toEqual(['bind-address 10.96.0.10 ENOMEM']);
    expect((await boundAddresses(kernel)).map(formatIp)).toEqual(['10.96.0.11']);
    expect(run.log.lines.filter((line) => line.startsWith('error')).join()).toContain(
      'bind-address 10.96.0.10: ENOMEM',
    );

    expect(run.clock.nextIn).toBe(1_000);
    expect((await run.pass(1_000)).failures).toHaveLength(1);
    expect(run.clock.nextIn).toBe(2_000);
    kernel.recover();
    expect((await run.pass(2_000)).failures).toEqual([]);
    expect((await boundAddresses(kernel)).map(formatIp)).toContain('10.96.0.10');
    expect(run.clock.nextIn).toBe(27_000);
  });

  test('a Service with six endpoints that is refused once is retried after a second', async () => {
    const { kernel, run } = await started();
    kernel.failOps((op) => (op.kind === 'add-real-server' ? 12 : undefined));
    const report = await run.take(sliceChange([1, 2, 3, 4, 5, 6].map((host) => `10.244.1.${host}`)));
    expect(report.failures).toHaveLength(6);
    expect(run.clock.nextIn).toBe(1_000);
    // Changes meanwhile try as well; they put nothing off.
    await run.take(sliceChange([1, 2, 3, 4, 5, 7].map((host) => `10.244.1.${host}`)));
    expect(run.clock.nextIn).toBe(1_000);
    kernel.recover();
    await run.pass(1_000);
    expect((await ipvs(kernel))['TCP 10.96.0.10:80']).toHaveLength(6);
  });

  test('a set entry that is refused repeatedly is retried with growing delays', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    kernel.failOps((op) => (op.kind === 'add-entry' ? 28 : undefined));
    const run = new Reconciling(kernel);
    await run.take(...listed([WEB], [WEB_SLICE]));
    const checks: number[] = [];
    const start = run.clock.now();
    while (run.clock.now() - start < 20_000) {
      const { kind } = await run.pass(run.clock.nextIn ?? 0);
      if (kind === 'full') checks.push(run.clock.now() - start);
    }
    expect(checks).toEqual([1_000, 3_000, 7_000, 15_000]);
    expect(run.log.lines.filter((line) => line.startsWith('error: the kernel refused'))).toHaveLength(2);
  });

  test('a sync whose operations were not even tried has failed, and says so in one line', async () => {
    const { kernel, run } = await started();
    const apply = kernel.apply.bind(kernel);
    const text = 'another program holds the lock of iptables';
    kernel.apply = async (tx) => {
      const ops = [...tx];
      return await Promise.resolve({
        failures: ops.map((op) => ({ op, errno: 0, code: 'LOCKED', text })),
        ...(ops.length > 0 && { stopped: text }),
      });
    };
    const added = Array.from({ length: 50 }, (_, index): SourceEvent => {
      return { kind: 'service', event: { type: 'applied', object: service(`more-${index}`, `10.96.1.${index}`) } };
    });
    expect(await run.take(...added)).toMatchObject({ ok: false, error: new Error(text), programming: [] });
    const refused = run.log.lines.filter((line) => line.startsWith('error: the kernel refused'));
    expect(refused).toHaveLength(21);
    expect(refused.at(-1)).toMatch(/^error: the kernel refused \d\d+ more operations; retrying/);
    const kinds: string[] = [];
    const start = run.clock.now();
    while (run.clock.now() - start < 10_000) kinds.push((await run.pass(run.clock.nextIn ?? 0)).kind);
    expect(run.reports.slice(1).every(({ ok }) => !ok)).toBe(true);
    expect(kinds.length).toBeLessThan(6);
    kernel.apply = apply;
    expect(await run.pass(run.clock.nextIn ?? 0)).toMatchObject({ kind: 'full', ok: true });
    expect(Object.keys(await ipvs(kernel))).toHaveLength(51);
  });

  test('a set entry that is refused for ever delays no change of other Services', async () => {
    const { kernel, run } = await started();
    kernel.failOps((op) => (op.kind === 'add-entry' && op.set.name === 'KUBE-CLUSTER-IP' ? 28 : undefined));
    const added = { kind: 'service', event: { type: 'applied', object: service('more', '10.96.0.11') } } as const;
    expect((await run.take(added)).failures).toHaveLength(1);
    run.clock.advance(999);
    for (let host = 1; host < 20; host++) {
      await run.take(sliceChange([`10.244.1.${host}`]));
      // The first report may be that of a full check, which the change has to follow without a pause.
      if (run.clock.nextIn === 0) await run.pass(0);
      expect((await ipvs(kernel))['TCP 10.96.0.10:80']).toContain(`10.244.1.${host}:8080 1`);
      run.clock.advance(50);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const kinds = run.reports.map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'full')).toHaveLength(1);
  });

  test('a virtual server that the kernel does not delete is retried beside a refused entry, and not forgotten', async () => {
    const { kernel, run } = await started();
    kernel.failOps((op) => (op.kind === 'add-entry' || op.kind === 'delete-virtual-server' ? 28 : undefined));
    const more = service('more', '10.96.0.11');
    await run.take(
      { kind: 'service', event: { type: 'deleted', object: { namespace: 'default', name: 'web' } } },
      { kind: 'service', event: { type: 'applied', object: more } },
    );
    expect(Object.keys(await ipvs(kernel))).toContain('TCP 10.96.0.10:80');
    kernel.recover();
    for (let syncs = 0; syncs < 2; syncs++) await run.pass(run.clock.nextIn ?? 0);
    expect(Object.keys(await ipvs(kernel))).toEqual(['TCP 10.96.0.11:80']);
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

  test('a virtual server whose source ranges cannot be enforced is not served', async () => {
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
    '%s does not serve a virtual server without its source ranges',
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

describe('a wall clock that is set while the program runs', () => {
  test.each([-5 * 3_600_000, -90_000, 90_000, 5 * 3_600_000])(
    'setting the wall clock by %d ms does not change when syncs run',
    async (step) => {
      const { kernel, run } = await started();
      run.clock.stepWall(step);
      expect(run.clock.nextIn).toBe(30_000);
      run.clock.advance(1_000);
      expect((await run.take(sliceChange(['10.244.0.9']))).kind).toBe('change');
      expect((await ipvs(kernel))['TCP 10.96.0.10:80']).toEqual(['10.244.0.9:8080 1']);
      expect((await run.pass(29_000)).kind).toBe('full');
    },
  );

  /** A slice that a change of this wall time caused. */
  function changedAt(time: number, suffix: string): EndpointSlice {
    const annotations = { 'endpoints.kubernetes.io/last-change-trigger-time': new Date(time).toISOString() };
    const { meta, ...rest } = slice('web', ['10.244.0.9'], { suffix });
    return { ...rest, meta: { ...meta, annotations } };
  }

  test.each([0, -5 * 3_600_000])(
    'the duration of a change is measured by the wall clock, because the slice has that, set by %d ms',
    async (step) => {
      const { run } = await started();
      run.clock.advance(10_000);
      run.clock.stepWall(step);
      const object = changedAt(run.clock.wallNow() - 2_000, 'a');
      const report = await run.take({ kind: 'endpoint-slice', event: { type: 'applied', object } });
      const [programmed] = report.programming;
      expect(programmed?.family).toBe(4);
      expect(Math.round(programmed?.durationMs ?? 0)).toBe(2_000);
      expect(report.programming).toHaveLength(1);
    },
  );

  test('slices that changed before the start have no duration (kubernetes/kubernetes#82378)', async () => {
    const run = new Reconciling(new FakeKernel());
    const start = run.clock.wallNow();
    run.clock.advance(3_000);
    const slices = [changedAt(start - 144_000_000, 'a'), changedAt(start + 1_000, 'b')];
    const { programming } = await run.take(...listed([service('web', '10.96.0.10')], slices));
    expect(programming.map(({ durationMs }) => Math.round(durationMs))).toEqual([2_000]);
  });
});

describe('draining', () => {
  test('a removed real server has weight 0 while it has connections, then is deleted; if it is added again, the weight is restored', async () => {
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

  test('draining ends at its deadline, not at the next check', async () => {
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

  test('the deadline of a draining that another process cut short does not end the next one', async () => {
    const kernel = new FakeKernel();
    await kernel.prepare();
    const run = new Reconciling(kernel, { drainTimeoutMs: 60_000, syncPeriodMs: 4_000 });
    await run.take(...listed([WEB], [WEB_SLICE]));
    const leaving = { ...real('10.244.0.6'), weight: 0 };
    kernel.setObserved(id('10.96.0.10'), real('10.244.0.6'), { activeConnections: 3 });
    await run.take(sliceChange(['10.244.0.5']));
    kernel.put({ kind: 'delete-real-server', id: id('10.96.0.10'), realServer: leaving });
    // The next full check sees that nothing drains any more.
    expect((await run.pass(4_000)).draining).toBe(0);
    run.clock.advance(3_000);
    await run.take(sliceChange(['10.244.0.5', '10.244.0.6']));
    kernel.setObserved(id('10.96.0.10'), real('10.244.0.6'), { activeConnections: 3 });
    for (let ms = 0; ms < 80_000; ms += 4_000) await run.pass(4_000);
    await run.take(sliceChange(['10.244.0.5']));
    expect((await ipvs(kernel))['TCP 10.96.0.10:80']).toContain('10.244.0.6:8080 0');
  });
});
