import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import { parseCidr } from '../../../src/base/cidr.ts';
import { namespacedName } from '../../../src/base/service/names.ts';
import { serviceLines } from '../../../src/command/explain.ts';
import type { AddressOwnerReply, PacketReply, ServiceReply } from '../../../src/explain/replies.ts';
import type { Flow } from '../../../src/kernel/kernel.ts';
import type { PlanConfig } from '../../../src/plan/plan-config.ts';
import { planRules } from '../../../src/plan/ipvs/plan-rules.ts';
import type { NodeSettings } from '../../../src/reconcile/node/node-settings.ts';
import { formatOp } from '../../../src/state/op.ts';
import { Transaction } from '../../../src/state/transaction.ts';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { nftablesPlane } from '../../fake-kernel/planes.ts';
import { listed, port, service, slice } from '../../support/objects.ts';
import { startOn } from '../../support/on-plane.ts';
import { questionsOf } from '../../support/questions.ts';
import { MODE_PLANS } from '../../../src/plan/mode-plans.ts';
import { PLAN_CONFIG, Reconciling } from '../../support/reconciling.ts';
import { address, portOf, real, virtualServer, vsId } from '../../support/state.ts';

const WEB = service('web', '10.96.0.10', { type: 'NodePort', ports: [port(80, { nodePort: 30_080 })] });
const THIEF = service('thief', '10.96.0.20', { externalIPs: ['10.96.0.10'] });
const ID = vsId('10.96.0.10', 80);

const LIGHT = { ...PLAN_CONFIG, localRouteCidrs: [parseCidr('10.96.0.0/12')!, parseCidr('fd00:96::/112')!] };

async function started(kernel = new FakeKernel(), plan: PlanConfig = PLAN_CONFIG, nodeSettings?: NodeSettings) {
  await kernel.prepare();
  const eth0 = { prefix: 24, interfaceName: 'eth0', tentative: false };
  kernel.setNodeAddresses([{ ...eth0, address: address('192.168.9.1') }]);
  const run = new Reconciling(kernel, { plan, ...(nodeSettings === undefined ? {} : { nodeSettings }) });
  await run.take(...listed([WEB, THIEF], [slice('web', ['10.244.0.5', '10.244.0.6'])]));
  const { ask } = questionsOf(kernel, run);
  const explain = async (name: string): Promise<ServiceReply> =>
    (await ask(`/v1/service?namespace=default&name=${name}`)) as ServiceReply;
  const owner = async (at: string): Promise<string> => {
    const { verdict, ok } = (await ask(`/v1/address?at=${encodeURIComponent(at)}`)) as AddressOwnerReply;
    return `${ok ? 'ok' : 'wrong'}: ${verdict}`;
  };
  const packet = async (from: string, to: string): Promise<PacketReply> =>
    (await ask(`/v1/packet?from=${from}&${to}`)) as PacketReply;
  return { kernel, run, ask, explain, owner, packet };
}

describe('a Service', () => {
  test('what the kernel lacks of it is said in the first line, with the commands', async () => {
    const { kernel, run, explain } = await started();
    expect(await explain('web')).toMatchObject({ ok: true });
    kernel.put({ kind: 'delete-real-server', id: ID, realServer: real('10.244.0.5', 1) });
    kernel.put({ kind: 'unbind-address', address: address('10.96.0.10') });
    const { writes } = kernel.counters;
    const broken = await explain('web');
    expect(broken.verdict).toBe(
      'default/web is not as it should be on this node: the kernel differs from the plan at 10.96.0.10:80 (2 commands in all)',
    );
    expect(broken.ports[0]?.addresses).toEqual([
      {
        use: 'ClusterIP',
        at: '10.96.0.10:80',
        endpoints: 2,
        state: 'differs',
        commands: [
          'ipvsadm -a -t 10.96.0.10:80 -r 10.244.0.5:8080 -m -w 1',
          'ip addr add 10.96.0.10/32 dev kube-ipvs0',
        ],
      },
      { use: 'NodePort', at: '192.168.9.1:30080', endpoints: 2, state: 'as planned', commands: [] },
    ]);
    expect(kernel.counters.writes).toBe(writes);
    await run.pass(30_000);
    expect(await explain('web')).toMatchObject({ ok: true });
  });

  test('a deleted local route of its address is named, and repaired by the next full check', async () => {
    const { kernel, run, explain, packet } = await started();
    kernel.tables.unrouted.add(address('10.96.0.10'));
    const command =
      'ip addr del 10.96.0.10/32 dev kube-ipvs0; ip -4 route flush table local exact 10.96.0.10; ip addr add 10.96.0.10/32 dev kube-ipvs0 # it has no local route';
    const { ok, ports } = await explain('web');
    expect({ ok, addresses: ports[0]?.addresses }).toMatchObject({
      ok: false,
      addresses: [
        { at: '10.96.0.10:80', state: 'differs', commands: [command] },
        { at: '192.168.9.1:30080', state: 'as planned' },
      ],
    });
    expect(await packet('10.244.0.7', 'at=10.96.0.10:80')).toMatchObject({ ok: false, commands: [command] });
    const check = await run.pass(30_000);
    expect(check.drift.map(formatOp)).toEqual(['bind-address 10.96.0.10 again, for its local route']);
    expect(await explain('web')).toMatchObject({ ok: true });
  });

  test('what all Services share is named: sysctls, IPVS timeouts, rules and local routes', async () => {
    const { kernel, explain, packet } = await started(undefined, LIGHT, {
      sysctls: [['net/ipv4/ip_forward', '1']],
      timeouts: { tcp: 900, tcpFin: 0, udp: 0 },
    });
    await kernel.setSysctl('net/ipv4/ip_forward', '1');
    expect(await explain('web')).toMatchObject({ ok: true, nodeCommands: [] });
    await kernel.setSysctl('net/ipv4/ip_forward', '0');
    await kernel.setIpvsTimeouts({ tcp: 60, tcpFin: 0, udp: 0 });
    kernel.put({ kind: 'delete-route', cidr: parseCidr('10.96.0.0/12')! });
    kernel.put({ kind: 'delete-route', cidr: parseCidr('fd00:96::/112')! });
    const shared = [
      'sysctl -w net.ipv4.ip_forward=1',
      'ipvsadm --set 900 0 0',
      'ip route add local 10.96.0.0/12 dev lo table local proto 120',
    ];
    const reply = await explain('web');
    expect(reply).toMatchObject({ ok: false, nodeCommands: shared });
    expect(reply.verdict).toBe(
      'default/web is not as it should be on this node: what all Services share on this node is not as planned: ' +
        'sysctl -w net.ipv4.ip_forward=1 (and 2 more commands)',
    );
    expect(serviceLines(reply)).toContain('of the node: sysctl -w net.ipv4.ip_forward=1');
    expect(await packet('10.244.0.7', 'at=10.96.0.10:80')).toMatchObject({ ok: false, commands: shared });
    await kernel.removeRules(planRules(LIGHT, 4));
    expect((await explain('web')).nodeCommands?.slice(3, 4)).toEqual(['iptables -t mangle -N KUBE-PROXY-FIREWALL']);
  });

  test('connections are those over all addresses', async () => {
    const { kernel, explain } = await started();
    kernel.setObserved(ID, real('10.244.0.5', 1), { activeConnections: 3, inactiveConnections: 1 });
    const node = vsId('192.168.9.1', 30_080);
    kernel.setObserved(node, real('10.244.0.5', 1), { activeConnections: 4 });
    const { ports } = await explain('web');
    expect(ports[0]?.endpoints[0]).toEqual({
      slice: 'web-a',
      at: '10.244.0.5:8080',
      use: 'all',
      weight: 1,
      activeConnections: 7,
      inactiveConnections: 1,
    });
  });

  test('the weight is that of the kernel, and 0 while an endpoint drains', async () => {
    const { kernel, run, explain } = await started();
    kernel.setObserved(ID, real('10.244.0.6', 1), { activeConnections: 2 });
    await run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: slice('web', ['10.244.0.5']) } });
    kernel.put({ kind: 'edit-real-server', id: ID, realServer: real('10.244.0.5', 7) });
    const { ports } = await explain('web');
    expect(ports[0]?.endpoints).toMatchObject([
      { at: '10.244.0.5:8080', use: 'all', weight: 7 },
      { at: '10.244.0.6:8080', use: 'none', why: 'no longer an endpoint of this port; it drains', weight: 0 },
    ]);
  });

  test('flags of the scheduler', async () => {
    const kernel = new FakeKernel();
    const run = new Reconciling(kernel, { plan: { ...PLAN_CONFIG, scheduler: 'mh' } });
    await run.take(...listed([WEB], [slice('web', ['10.244.0.5'])]));
    const reply = await run.reconciler.answers.service(namespacedName('default', 'web'), (rules) =>
      kernel.compareRules(rules),
    );
    expect(reply?.settings).toMatchObject({ scheduler: 'mh', flags: ['mh-fallback', 'mh-port'] });
  });

  test('counters of its virtual servers, and of its endpoints over all of them', async () => {
    const { kernel, explain } = await started();
    const node = vsId('192.168.9.1', 30_080);
    kernel.setStats(ID, { connections: 2, incomingPackets: 20 });
    kernel.setStats(node, { outgoingBytes: 9 });
    kernel.setRealServerStats(ID, real('10.244.0.5', 1), { connections: 2, incomingPackets: 20 });
    kernel.setRealServerStats(node, real('10.244.0.5', 1), { connections: 1, outgoingBytes: 9 });
    const zero = { connections: 0, incomingPackets: 0, outgoingPackets: 0, incomingBytes: 0, outgoingBytes: 0 };
    const { ports } = await explain('web');
    expect(ports[0]?.counters).toEqual([
      { ...zero, at: '10.96.0.10:80', connections: 2, incomingPackets: 20 },
      { ...zero, at: '192.168.9.1:30080', outgoingBytes: 9 },
      { ...zero, at: '10.244.0.5:8080', connections: 3, incomingPackets: 20, outgoingBytes: 9 },
      { ...zero, at: '10.244.0.6:8080' },
    ]);
    expect(ports[0]).not.toHaveProperty('udpFlows');
  });

  test('the entries of sets, what they do, and what the kernel lacks of them', async () => {
    const { kernel, explain } = await started();
    expect((await explain('web')).sets).toEqual([
      {
        set: 'KUBE-CLUSTER-IP',
        does: 'clients keep their address (no --cluster-cidr or other way to tell Pods from others)',
        count: 1,
        first: ['10.96.0.10,tcp:80'],
        commands: [],
      },
      {
        set: 'KUBE-NODE-PORT-TCP',
        does: 'all clients are masqueraded (externalTrafficPolicy: Cluster), unless KUBE-NODE-PORT-LOCAL-TCP has it too',
        count: 1,
        first: ['30080'],
        commands: [],
      },
      {
        set: 'KUBE-IPVS-IPS',
        does: 'ports without a Service refuse connections',
        count: 1,
        first: ['10.96.0.10'],
        commands: [],
      },
    ]);
    const set = (await kernel.getSets()).find(({ name }) => name === 'KUBE-NODE-PORT-TCP');
    const entry = set?.entries[0];
    if (set === undefined || entry === undefined) throw new Error('no entry');
    kernel.put({ kind: 'delete-entry', set, entry });
    const { ok, verdict, sets } = await explain('web');
    expect(ok).toBe(false);
    expect(verdict).toBe(
      'default/web is not as it should be on this node: the kernel lacks entries of KUBE-NODE-PORT-TCP',
    );
    expect(sets.map(({ commands }) => commands)).toEqual([[], ['ipset add KUBE-NODE-PORT-TCP 30080'], []]);
  });

  test('UDP flows to its ports, unless conntrack is too large to read', async () => {
    const { kernel, run, explain } = await started();
    const dns = service('dns', '10.96.0.53', { ports: [port(53, { protocol: 'UDP' })] });
    await run.take({ kind: 'service', event: { type: 'applied', object: dns } });
    const to = (destination: string, destinationPort: number): Flow => ({
      family: 4,
      protocol: 'UDP',
      source: address('10.244.0.9'),
      sourcePort: portOf(40_000 + destinationPort),
      destination: address(destination),
      destinationPort: portOf(destinationPort),
      replySource: address('10.244.0.5'),
      replySourcePort: portOf(53),
    });
    kernel.setUdpFlows([to('10.96.0.53', 53), to('10.96.0.53', 54), to('10.96.0.10', 53)]);
    kernel.sysctls.set('net/netfilter/nf_conntrack_count', '65536');
    expect((await explain('dns')).ports[0]?.udpFlows).toBe(1);
    kernel.sysctls.set('net/netfilter/nf_conntrack_count', '65537');
    expect((await explain('dns')).ports[0]).not.toHaveProperty('udpFlows');
  });

  test('what the kernel refuses of it, and nothing of others', async () => {
    const { kernel, run, explain } = await started();
    kernel.failOps((op) => (op.kind === 'add-real-server' ? 12 : undefined));
    await run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: slice('web', ['10.244.0.7']) } });
    const { verdict, refused } = await explain('web');
    expect(refused).toEqual([
      { command: 'ipvsadm -a -t 10.96.0.10:80 -r 10.244.0.7:8080 -m -w 1', why: 'ENOMEM', attempts: 1 },
      { command: 'ipvsadm -a -t 192.168.9.1:30080 -r 10.244.0.7:8080 -m -w 1', why: 'ENOMEM', attempts: 1 },
    ]);
    expect(verdict).toBe(
      'default/web is not as it should be on this node: the kernel refuses ' +
        'ipvsadm -a -t 10.96.0.10:80 -r 10.244.0.7:8080 -m -w 1: ENOMEM (and 1 more operation)',
    );
    expect((await explain('thief')).refused).toEqual([]);
  });

  test('an endpoint that becomes ready is known without a sync for it before', async () => {
    const { run, explain } = await started();
    const unready = slice('web', [
      '10.244.0.5',
      { ...slice('web', ['10.244.0.6']).endpoints[0]!, ready: false, serving: false },
    ]);
    await run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: unready } });
    expect((await explain('web')).ports[0]?.endpoints[1]).toMatchObject({ at: '10.244.0.6', why: 'not ready' });
    const before = run.reports.length;
    const gone = {
      ...unready,
      endpoints: unready.endpoints.map((each, at) => (at === 1 ? { ...each, terminating: true } : each)),
    };
    run.cluster.apply({ kind: 'endpoint-slice', event: { type: 'applied', object: gone } });
    expect(run.cluster.changed()).toBe(false);
    expect(run.reports).toHaveLength(before);
    expect((await explain('web')).ports[0]?.endpoints[1]?.why).toBe('terminating, and no longer serving');
  });

  test('an endpoint of a family that this node does not serve', async () => {
    const kernel = new FakeKernel();
    const run = new Reconciling(kernel, { plan: { ...PLAN_CONFIG, families: [4] } });
    const six = slice('web', ['fd00::5'], { suffix: 'six' });
    await run.take(...listed([WEB], [slice('web', ['10.244.0.5']), six]));
    const reply = await run.reconciler.answers.service(namespacedName('default', 'web'), (rules) =>
      kernel.compareRules(rules),
    );
    expect(reply?.ports[0]?.endpoints.map(({ at, why }) => `${at} ${why ?? 'used'}`)).toEqual([
      '10.244.0.5:8080 used',
      '[fd00::5]:8080 this node does not serve IPv6',
    ]);
  });

  test.each([
    [
      'with NAT',
      undefined,
      'is served on this node, but not for clients from outside: 2 of 2',
      'clients from outside get',
    ],
    ['without NAT', 'route', 'is served on this node: 2 of 2', 'no endpoint is on this node: in spite of external'],
  ])('policy Local without an endpoint on this node, %s', async (_name, value, verdict, note) => {
    const kernel = new FakeKernel();
    const run = new Reconciling(kernel, {}, ['forwarding']);
    const annotations = value === undefined ? [] : [{ name: 'forwarding', value }];
    const external = { externalIPs: ['10.97.0.10'], externalTrafficPolicy: 'Local', annotations };
    const ports = [{ name: '', protocol: 'TCP', port: 80 }];
    const local = service('web', '10.96.0.10', { ...external, ports: [port(80)] });
    await run.take(...listed([local], [slice('web', ['10.244.0.5', '10.244.0.6'], { ports })]));
    const reply = await run.reconciler.answers.service(namespacedName('default', 'web'), (rules) =>
      kernel.compareRules(rules),
    );
    expect(reply).toMatchObject({ ok: true, verdict: expect.stringContaining(verdict) });
    expect(reply?.ports[0]?.notes).toEqual([expect.stringContaining(note)]);
  });

  test('an address that belongs to another Service', async () => {
    const { explain } = await started();
    const { ports, notes } = await explain('thief');
    expect(ports[0]?.addresses[0]).toMatchObject({ state: 'belongs to another Service', owner: 'default/web' });
    expect(notes[0]).toBe('TCP 10.96.0.10:80 belongs to default/web');
  });

  test('only what it needs is read', async () => {
    const { kernel, explain } = await started();
    const asked: Record<string, unknown> = {};
    const getSets = kernel.getSets.bind(kernel);
    const getStats = kernel.getVirtualServerStats.bind(kernel);
    kernel.getSets = (names) => getSets((asked['sets'] = names));
    kernel.getVirtualServerStats = (ids) => getStats((asked['stats'] = ids));
    await explain('thief');
    expect(asked).toMatchObject({ sets: ['KUBE-CLUSTER-IP', 'KUBE-IPVS-IPS'], stats: [vsId('10.96.0.20', 80)] });
  });

  test('none of this name', async () => {
    const { explain } = await started();
    expect(await explain('nope')).toMatchObject({ ok: false, ports: [] });
    expect((await explain('nope')).verdict).toMatch(
      /^default\/nope is not served on this node: there is no such Service/,
    );
  });
});

describe('an address and port', () => {
  test.each([
    ['10.96.0.10:80', 'ok: 10.96.0.10:80/TCP is the ClusterIP of default/web'],
    ['10.96.0.10:80/tcp', 'ok: 10.96.0.10:80/TCP is the ClusterIP of default/web'],
    ['192.168.9.1:30080', 'ok: 192.168.9.1:30080/TCP is the NodePort of default/web'],
    ['10.244.0.6:8080', 'ok: 10.244.0.6:8080/TCP is an endpoint of default/web'],
    [
      '10.96.0.10:81',
      "wrong: 10.96.0.10:81 is nobody's: default/web has 10.96.0.10 at 80/TCP; its other ports refuse connections",
    ],
    [
      '10.96.0.10:80/UDP',
      "wrong: 10.96.0.10:80 is nobody's: default/web has 10.96.0.10 at 80/TCP; its other ports refuse connections",
    ],
    ['192.168.9.1:22', "wrong: 192.168.9.1:22 is nobody's: default/web has 192.168.9.1 at 30080/TCP"],
    ['[fd00::1]:80', "wrong: [fd00::1]:80 is nobody's: no Service and no virtual server of this node has it"],
  ])('%s', async (at, said) => {
    const { owner } = await started();
    expect(await owner(at)).toBe(said);
  });

  test('foreign, left over, and missing in the kernel', async () => {
    const { kernel, owner } = await started();
    kernel.put({ kind: 'add-virtual-server', virtualServer: virtualServer('192.0.2.1', 443) });
    expect(await owner('192.0.2.1:443')).toBe(
      'ok: 192.0.2.1:443/TCP is a virtual server of another program, which this one never changes',
    );
    kernel.put({ kind: 'add-virtual-server', virtualServer: virtualServer('10.96.0.10', 99) });
    expect(await owner('10.96.0.10:99')).toBe(
      'wrong: 10.96.0.10:99/TCP is a virtual server that no Service needs: the next full check deletes it',
    );
    kernel.put({ kind: 'delete-virtual-server', id: ID });
    expect(await owner('10.96.0.10:80')).toBe(
      'wrong: 10.96.0.10:80/TCP is the ClusterIP of default/web, but the kernel has no virtual server there',
    );
  });

  test('an address alone: all of its ports', async () => {
    const { owner } = await started();
    expect(await owner('10.96.0.10')).toBe('ok: 10.96.0.10:80/TCP is the ClusterIP of default/web');
  });

  test.each([
    ['10.96.0.10:0', 'want a port from 1 to 65535'],
    ['10.96.0.10:99999', 'want a port from 1 to 65535'],
    ['10.96.0.10:80/ICMP', 'want one of the protocols TCP, UDP, SCTP'],
    ['x:80', 'is not IP, IP:PORT or IP:PORT/PROTOCOL'],
  ])('%s is refused', async (at, why) => {
    const { owner } = await started();
    await expect(owner(at)).rejects.toThrow(why);
  });
});

describe('a packet', () => {
  test('the routes of the kernel say where the client is and what the endpoints see, and the rules what they counted', async () => {
    const { kernel, packet } = await started();
    const cni0 = { prefix: 24, interfaceName: 'cni0', tentative: false, address: address('10.244.0.1') };
    kernel.setNodeAddresses([...(await kernel.getNodeAddresses()), cni0]);
    const reply = await packet('192.168.9.77', 'at=192.168.9.1:30080');
    expect(reply).toMatchObject({
      ok: true,
      verdict: '192.168.9.77 -> 192.168.9.1:30080/TCP reaches one of 2 endpoints, which see 10.244.0.1',
      origin: 'outside',
      use: 'NodePort',
      service: 'default/web',
      commands: [],
    });
    expect(reply.steps[0]).toMatchObject({ hook: 'PREROUTING', chain: 'KUBE-SERVICES', packets: 0 });
    expect(await packet('10.244.0.5', 'at=10.96.0.10:80')).toMatchObject({ origin: 'Pod of this node' });
    expect(await packet('192.168.9.1', 'at=10.96.0.10:80')).toMatchObject({
      origin: 'this node',
      source: '10.96.0.10',
    });
  });

  test('what the kernel lacks where the packet passes is said in the first line, with the commands', async () => {
    const { kernel, packet } = await started();
    kernel.put({ kind: 'delete-real-server', id: ID, realServer: real('10.244.0.5', 1) });
    kernel.put({ kind: 'unbind-address', address: address('10.96.0.10') });
    const { ok, verdict, commands } = await packet('10.244.0.7', 'at=10.96.0.10:80');
    expect(ok).toBe(false);
    expect(verdict).toMatch(/; this is the plan, from which the kernel differs here \(2 commands below\)$/);
    expect(commands).toEqual([
      'ipvsadm -a -t 10.96.0.10:80 -r 10.244.0.5:8080 -m -w 1',
      'ip addr add 10.96.0.10/32 dev kube-ipvs0',
    ]);
    kernel.flushRules(4);
    const flushed = await packet('10.244.0.7', 'at=10.96.0.10:80');
    expect(flushed.commands).toContain('iptables -t nat -N KUBE-SERVICES');
    expect(flushed.steps[0]).not.toHaveProperty('packets');
  });

  test('a Service means the only port of its cluster IP; a protocol is chosen among those that are served', async () => {
    const { run, packet } = await started();
    expect(await packet('10.244.0.7', 'namespace=default&name=web')).toMatchObject({ to: '10.96.0.10:80' });
    const ports = [port(53, { name: 'udp', protocol: 'UDP' }), port(9_153, { name: 'metrics' })];
    const object = service('dns', '10.96.0.53', { ports });
    await run.take({ kind: 'service', event: { type: 'applied', object } });
    expect(await packet('10.244.0.7', 'at=10.96.0.53:53')).toMatchObject({ protocol: 'UDP', result: 'refused' });
    await expect(packet('10.244.0.7', 'namespace=default&name=dns')).rejects.toThrow(
      'default/dns has several ports: ask for one of 10.96.0.53:53/UDP, 10.96.0.53:9153/TCP',
    );
  });

  test.each([
    ['nonsense', 'at=10.96.0.10:80', '"nonsense" is not an IP address'],
    ['10.244.0.7', 'at=nonsense', '"nonsense" is not IP, IP:PORT or IP:PORT/PROTOCOL'],
    ['10.244.0.7', 'at=[fd00::1]:80', '10.244.0.7 and fd00::1 are not of the same IP family'],
    ['10.244.0.7', 'namespace=default&name=nope', 'default/nope is not served on this node: see explain default/nope'],
    ['fd00::7', 'namespace=default&name=web', 'default/web has no IPv6 cluster IP that this node serves'],
    ['10.244.0.7', 'name=web', 'the question has no namespace'],
  ])('from %s to %s cannot be asked', async (from, to, problem) => {
    const { packet } = await started();
    await expect(packet(from, to)).rejects.toThrow(problem);
  });

  test('from a family that this node does not serve', async () => {
    const kernel = new FakeKernel();
    const run = new Reconciling(kernel, { plan: { ...PLAN_CONFIG, families: [4] } });
    const target = { address: address('fd00::1'), port: ID.port, protocols: ['TCP'] } as const;
    expect(
      await run.reconciler.answers.packet(address('fd00::7'), target, (rules) => kernel.compareRules(rules)),
    ).toEqual({
      problem: 'this node does not serve IPv6',
    });
  });
});

test.each([
  '/v1/status',
  '/v1/diff',
  '/v1/service?namespace=a&name=b',
  '/v1/address?at=10.96.0.1:80',
  '/v1/packet?from=10.0.0.1&at=10.96.0.1:80',
])('%s while the daemon starts: a sentence', async (path) => {
  const kernel = new FakeKernel();
  const { ask } = questionsOf(kernel, new Reconciling(kernel), true);
  await expect(ask(path)).rejects.toThrow(/^the daemon (is still starting|has not completed its first sync)/);
});

test('of 3,000 endpoints, the first 1,000 are listed, and the verdict is about all', async () => {
  const { run, explain } = await started();
  const slices = Array.from({ length: 30 }, (_, at) => ({
    ...slice(
      'web',
      Array.from({ length: 100 }, (__, pod) => `10.${100 + (at >> 6)}.${at & 63}.${pod}`),
      { suffix: `s${at}` },
    ),
  }));
  await run.take(...slices.map((object) => ({ kind: 'endpoint-slice', event: { type: 'applied', object } }) as const));
  const reply = await explain('web');
  expect(reply.verdict).toMatch(/^default\/web is served on this node: 3002 of 3002 endpoints used at 2 addresses/);
  expect(reply.ports[0]?.endpoints).toHaveLength(1_000);
  expect(reply.ports[0]?.notes).toEqual(['2002 more endpoints are not listed']);
});

test('the health check of load balancers is asked, and its count said', async () => {
  const server = createServer((_request, response) => response.writeHead(503).end());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const checked = (healthCheckNodePort: number) =>
    service('checked', '10.96.0.30', {
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      healthCheckNodePort,
      ports: [port(80, { nodePort: 30_081 })],
    });
  const { run, explain } = await started();
  const { port: number } = server.address() as AddressInfo;
  await run.take(...listed([checked(number)], [slice('checked', ['10.244.0.9'])]));
  const { healthChecks = [], ...answering } = await explain('checked');
  expect(healthChecks).toEqual([{ at: `127.0.0.1:${number}`, localEndpoints: 0, status: 503 }]);
  expect(serviceLines({ ...answering, healthChecks })).toContain(
    `healthCheckNodePort: 127.0.0.1:${number} answers 503, 0 ready endpoints on this node`,
  );
  await new Promise((resolve) => server.close(resolve));
  const silent = await explain('checked');
  expect(silent.healthChecks?.[0]).toMatchObject({ localEndpoints: 0, why: expect.stringContaining('ECONNREFUSED') });
  expect(serviceLines(silent).join(' ')).toContain(`127.0.0.1:${number} does not answer: `);
});

test.each([
  [{ masqueradeAll: true }, 'all clients are masqueraded (masqueradeAll)'],
  [
    { localDetectors: { 4: { kind: 'cidr', cidr: parseCidr('10.244.0.0/16')! } } },
    'clients that are not Pods (--detect-local-mode) are masqueraded; Pods are in 10.244.0.0/16',
  ],
  [
    { localDetectors: { 4: { kind: 'bridge', interfaceName: 'cni0' } } },
    'clients that are not Pods (--detect-local-mode) are masqueraded; Pods are behind bridge cni0',
  ],
  [
    { localDetectors: { 4: { kind: 'interface-prefix', prefix: 'veth' } } },
    'clients that are not Pods (--detect-local-mode) are masqueraded; Pods are behind interfaces veth*',
  ],
] as const)('why the source address of a client is as it is: %j', async (settings, does) => {
  const { explain } = await started(new FakeKernel(), { ...PLAN_CONFIG, ...settings });
  expect((await explain('web')).sets[0]).toMatchObject({ set: 'KUBE-CLUSTER-IP', does });
});

describe('nftables mode', () => {
  const inTables = () => started(new FakeKernel('nftables'), { ...PLAN_CONFIG, ...MODE_PLANS.nftables });

  test('a Service is explained without objects of other modes and counts that nobody has', async () => {
    const { explain } = await inTables();
    const whole = await explain('web');
    expect(whole).toMatchObject({ ok: true });
    expect(whole.ports[0]?.endpoints[0]).toEqual({ slice: 'web-a', at: '10.244.0.5:8080', use: 'all', weight: 1 });
    expect(whole.ports[0]?.addresses.map(({ use, clients }) => `${use}: ${clients}`)).toEqual([
      'ClusterIP: clients keep their address (no --cluster-cidr or other way to tell Pods from others)',
      'NodePort: all clients are masqueraded (externalTrafficPolicy: Cluster)',
    ]);
    const lines = serviceLines(whole).map((line) => line.replaceAll(/ +/g, ' '));
    expect(lines).toContain(' web-a 10.244.0.6:8080 in the kernel used');
    expect(lines.join('\n')).not.toMatch(/ipvs|ipset|KUBE-|active/);
  });

  test('every address that is missing differs, also one that shares the list of a later one', async () => {
    const { kernel, run } = await startOn(nftablesPlane());
    await run.take(
      ...listed(
        [service('web', '10.96.0.10', { externalIPs: ['10.95.0.1'] })],
        [slice('web', ['10.244.0.5', '10.244.0.6'])],
      ),
    );
    const ids = [vsId('10.95.0.1', 80), ID];
    expect(await kernel.apply(new Transaction(ids.map((id) => ({ kind: 'delete-virtual-server', id }))))).toEqual({
      failures: [],
    });
    await kernel.ensureDevice();
    const { ask } = questionsOf(kernel, run);
    const { ports } = (await ask('/v1/service?namespace=default&name=web')) as ServiceReply;
    expect(ports[0]?.addresses.map(({ at, state, commands }) => [at, state, commands.length > 0])).toEqual([
      ['10.95.0.1:80', 'differs', true],
      ['10.96.0.10:80', 'differs', true],
    ]);
  });

  test('an address has a service port, and one that no Service needs is no foreign one', async () => {
    const { kernel, owner } = await inTables();
    kernel.put({ kind: 'delete-virtual-server', id: ID });
    kernel.put({ kind: 'add-virtual-server', virtualServer: virtualServer('10.99.0.1', 80) });
    expect(await owner('10.96.0.10:80/TCP')).toBe(
      'wrong: 10.96.0.10:80/TCP is the ClusterIP of default/web, but the kernel has no service port there',
    );
    expect(await owner('10.99.0.1:80/TCP')).toBe(
      'wrong: 10.99.0.1:80/TCP is a service port that no Service needs: the next full check deletes it',
    );
    expect(await owner('10.99.0.2:80/TCP')).toBe(
      "wrong: 10.99.0.2:80 is nobody's: no Service and no service port of this node has it",
    );
  });
});
