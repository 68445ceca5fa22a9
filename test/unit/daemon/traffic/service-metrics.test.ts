import { PassThrough } from 'node:stream';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { ServiceMetrics } from '../../../../src/daemon/traffic/service-metrics.ts';
import { createLog } from '../../../../src/observe/log/winston-log.ts';
import { FakeKernel } from '../../../fake-kernel/fake-kernel.ts';
import { namespacedName } from '../../../../src/base/service/names.ts';
import { NodePlan } from '../../../../src/plan/node/node-plan.ts';
import { addressTraits } from '../../../../src/state/address-traits.ts';
import type { PlannedVirtualServer } from '../../../../src/plan/service-plan.ts';
import type { RealServer } from '../../../../src/state/real-server.ts';
import type { VirtualServer } from '../../../../src/state/virtual-server.ts';
import { ip, realServer, virtualServer } from '../../../contract/objects.ts';
import { TestLog } from '../../../support/reconciling.ts';

const WEB = namespacedName('default', 'web');
const CLUSTER_IP = virtualServer(ip('10.96.0.1'), 80);
const EXTERNAL = virtualServer(ip('203.0.113.1'), 80);
const NODE_PORT = virtualServer(ip('192.0.2.1'), 30_080);
const HTTPS = virtualServer(ip('10.96.0.1'), 443);

let kernel: FakeKernel;
let plan: NodePlan;
let log: TestLog;
let metrics: ServiceMetrics;
let httpName: string;

function demand(name: typeof WEB, ...virtualServers: readonly VirtualServer[]): void {
  const planned = virtualServers.map((each): PlannedVirtualServer => ({
    virtualServer: each,
    realServers: [],
    traits: addressTraits('external', false),
    portName: each.port === 443 ? 'https' : httpName,
  }));
  plan.replace(name, {
    service: name,
    virtualServers: planned,
    addresses: [],
    closed: [],
    hairpins: [],
    entries: [],
    udp: [],
    noLocalEndpoints: { internal: [], external: [] },
    warnings: [],
  });
}

function exist(...virtualServers: readonly VirtualServer[]): void {
  for (const each of virtualServers) kernel.put({ kind: 'add-virtual-server', virtualServer: each });
}

let isMeasured: (service: typeof WEB) => boolean;

async function connections(): Promise<Readonly<Record<string, number>>> {
  const read = await metrics.read();
  return Object.fromEntries(
    read.map((each) => [`${each.namespace}/${each.service}:${each.portName}/${each.protocol}`, each.connections]),
  );
}

beforeEach(() => {
  kernel = new FakeKernel();
  plan = new NodePlan();
  log = new TestLog();
  httpName = 'http';
  isMeasured = () => true;
  metrics = new ServiceMetrics({ kernel, plan: () => plan, isMeasured, limit: 2, realServers: false, log });
});

describe('traffic of a Service port', () => {
  test('the traffic of a Service port is the sum over its virtual servers; another port has its own', async () => {
    const all = [CLUSTER_IP, EXTERNAL, NODE_PORT, HTTPS];
    demand(WEB, ...all);
    exist(...all);
    kernel.setStats(CLUSTER_IP, { connections: 1, incomingPackets: 10, outgoingBytes: 1000 });
    kernel.setStats(EXTERNAL, { connections: 2, outgoingPackets: 20 });
    kernel.setStats(NODE_PORT, { connections: 4, incomingBytes: 500 });
    kernel.setStats(HTTPS, { connections: 8 });
    for (const [id, change] of [
      [CLUSTER_IP, { activeConnections: 3, inactiveConnections: 1 }],
      [NODE_PORT, { activeConnections: 2, inactiveConnections: 5 }],
    ] as const) {
      const server = realServer(ip('10.244.0.1'), 8080);
      kernel.put({ kind: 'add-real-server', id, realServer: server });
      kernel.setObserved(id, server, change);
    }
    expect(await metrics.read()).toEqual([
      {
        namespace: 'default',
        service: 'web',
        portName: 'http',
        protocol: 'TCP',
        connections: 7,
        incomingPackets: 10,
        outgoingPackets: 20,
        incomingBytes: 500,
        outgoingBytes: 1000,
        activeConnections: 5,
        inactiveConnections: 6,
        realServers: [],
      },
      expect.objectContaining({ portName: 'https', connections: 8, activeConnections: 0 }),
    ]);
  });

  test('the counters of a Service port do not decrease when a virtual server is deleted or its counters restart', async () => {
    demand(WEB, CLUSTER_IP, EXTERNAL);
    exist(CLUSTER_IP, EXTERNAL);
    kernel.setStats(CLUSTER_IP, { connections: 10, incomingBytes: 100 });
    kernel.setStats(EXTERNAL, { connections: 5 });
    expect(await connections()).toEqual({ 'default/web:http/TCP': 15 });
    demand(WEB, CLUSTER_IP);
    kernel.put({ kind: 'delete-virtual-server', id: EXTERNAL });
    expect(await connections()).toEqual({ 'default/web:http/TCP': 15 });
    // Created again, with higher counters than before.
    demand(WEB, CLUSTER_IP, EXTERNAL);
    exist(EXTERNAL);
    kernel.setStats(EXTERNAL, { connections: 6 });
    expect(await connections()).toEqual({ 'default/web:http/TCP': 21 });
    // Zeroed, as ipvsadm -Z does.
    kernel.setStats(CLUSTER_IP, { connections: 1, incomingBytes: 7 });
    expect(await connections()).toEqual({ 'default/web:http/TCP': 22 });
    expect((await metrics.read())[0]?.incomingBytes).toBe(107);
  });

  test('a Service port without a virtual server in the kernel has zero traffic; a deleted one has no metrics', async () => {
    demand(WEB, CLUSTER_IP);
    expect(await connections()).toEqual({ 'default/web:http/TCP': 0 });
    plan.replace(WEB, undefined);
    expect(await connections()).toEqual({});
  });

  test('traffic counts for the Service that won the virtual server', async () => {
    demand(WEB, CLUSTER_IP);
    demand(namespacedName('default', 'aaa'), CLUSTER_IP);
    exist(CLUSTER_IP);
    kernel.setStats(CLUSTER_IP, { connections: 3 });
    expect(await connections()).toEqual({ 'default/aaa:http/TCP': 3 });
  });
});

describe('traffic of single real servers', () => {
  const ONE = realServer(ip('10.244.0.1'), 8080);
  const TWO = realServer(ip('10.244.0.2'), 8080);
  let single: ServiceMetrics;

  beforeEach(() => {
    single = new ServiceMetrics({ kernel, plan: () => plan, isMeasured, limit: 2, realServers: true, log });
  });

  function serve(id: VirtualServer, ...servers: readonly RealServer[]): void {
    for (const each of servers) kernel.put({ kind: 'add-real-server', id, realServer: each });
  }

  async function byPort(): Promise<Readonly<Record<string, Readonly<Record<string, number>>>>> {
    const read = await single.read();
    return Object.fromEntries(
      read.map(({ service, portName, realServers }) => [
        `${service}:${portName}`,
        Object.fromEntries(realServers.map((each) => [each.realServer, each.connections])),
      ]),
    );
  }

  test('the traffic of a real server is the sum over all virtual servers of its port; the sums of the port stay', async () => {
    demand(WEB, CLUSTER_IP, NODE_PORT, HTTPS);
    exist(CLUSTER_IP, NODE_PORT, HTTPS);
    serve(CLUSTER_IP, ONE, TWO);
    serve(NODE_PORT, ONE);
    serve(HTTPS, ONE);
    kernel.setStats(CLUSTER_IP, { connections: 9 });
    kernel.setRealServerStats(CLUSTER_IP, ONE, { connections: 1, incomingPackets: 10, incomingBytes: 100 });
    kernel.setRealServerStats(NODE_PORT, ONE, { connections: 2, outgoingPackets: 20, outgoingBytes: 200 });
    kernel.setRealServerStats(HTTPS, ONE, { connections: 4 });
    kernel.setObserved(CLUSTER_IP, ONE, { activeConnections: 3, inactiveConnections: 1 });
    kernel.setObserved(NODE_PORT, ONE, { activeConnections: 2, inactiveConnections: 5 });
    const [http, https] = await single.read();
    expect(http).toMatchObject({ portName: 'http', connections: 9, activeConnections: 5, inactiveConnections: 6 });
    expect(http?.realServers).toEqual([
      {
        realServer: '10.244.0.1:8080',
        connections: 3,
        incomingPackets: 10,
        outgoingPackets: 20,
        incomingBytes: 100,
        outgoingBytes: 200,
        activeConnections: 5,
        inactiveConnections: 6,
      },
      expect.objectContaining({ realServer: '10.244.0.2:8080', connections: 0, activeConnections: 0 }),
    ]);
    expect(https?.realServers).toMatchObject([{ realServer: '10.244.0.1:8080', connections: 4 }]);
    expect(kernel.calls.get('getRealServers')).toBeUndefined();
  });

  test('the counters of a real server do not decrease while another virtual server has it, and end with the last one', async () => {
    demand(WEB, CLUSTER_IP, NODE_PORT);
    exist(CLUSTER_IP, NODE_PORT);
    serve(CLUSTER_IP, ONE, TWO);
    serve(NODE_PORT, ONE);
    kernel.setRealServerStats(CLUSTER_IP, ONE, { connections: 5 });
    kernel.setRealServerStats(NODE_PORT, ONE, { connections: 2 });
    expect(await byPort()).toEqual({ 'web:http': { '10.244.0.1:8080': 7, '10.244.0.2:8080': 0 } });
    kernel.put({ kind: 'delete-real-server', id: CLUSTER_IP, realServer: ONE });
    expect(await byPort()).toEqual({ 'web:http': { '10.244.0.1:8080': 7, '10.244.0.2:8080': 0 } });
    // Created again, with higher counters than before.
    serve(CLUSTER_IP, ONE);
    kernel.setRealServerStats(CLUSTER_IP, ONE, { connections: 6 });
    expect(await byPort()).toEqual({ 'web:http': { '10.244.0.1:8080': 13, '10.244.0.2:8080': 0 } });
    for (const id of [CLUSTER_IP, NODE_PORT]) kernel.put({ kind: 'delete-real-server', id, realServer: ONE });
    expect(await byPort()).toEqual({ 'web:http': { '10.244.0.2:8080': 0 } });
  });

  test('with more real servers than ten times the limit, only metrics of ports are served, and one line says so', async () => {
    const many = Array.from({ length: 21 }, (_, n) => realServer(ip(`10.244.1.${n}`), 8080));
    demand(WEB, CLUSTER_IP);
    exist(CLUSTER_IP);
    serve(CLUSTER_IP, ...many.slice(1));
    kernel.setStats(CLUSTER_IP, { connections: 3 });
    expect((await single.read())[0]?.realServers).toHaveLength(20);
    serve(CLUSTER_IP, ...many.slice(0, 1));
    for (let scrape = 0; scrape < 2; scrape++) {
      expect(await single.read()).toMatchObject([{ connections: 3, realServers: [] }]);
    }
    expect(log.lines).toEqual([
      'warn: per-real-server metrics disabled: more than 20 real servers, 10 per service of --service-metrics-limit',
    ]);
    kernel.put({ kind: 'delete-real-server', id: CLUSTER_IP, realServer: many[0]! });
    expect((await single.read())[0]?.realServers).toHaveLength(20);
    expect(log.lines.slice(1)).toEqual(['info: per-real-server metrics available again']);
  });
});

test('two concurrent scrapes read the kernel once', async () => {
  demand(WEB, CLUSTER_IP);
  exist(CLUSTER_IP);
  await Promise.all([metrics.read(), metrics.read()]);
  expect(kernel.calls.get('getVirtualServerStats')).toBe(1);
  await metrics.read();
  expect(kernel.calls.get('getVirtualServerStats')).toBe(2);
});

test('above the limit there are no Service metrics, the kernel is not read, and one line says so', async () => {
  const third = namespacedName('default', 'three');
  demand(WEB, CLUSTER_IP);
  demand(namespacedName('default', 'two'));
  demand(third);
  expect(await metrics.read()).toEqual([]);
  expect(await metrics.read()).toEqual([]);
  expect(kernel.calls.get('getVirtualServerStats')).toBeUndefined();
  expect(log.lines).toEqual([
    'warn: per-service metrics disabled: more than 2 selected services (--service-metrics-limit)',
  ]);
  plan.replace(third, undefined);
  expect(await metrics.read()).toHaveLength(1);
  expect(log.lines.slice(1)).toEqual(['info: per-service metrics available again']);
});

test('Services that are not measured count neither for the metrics nor for the limit', async () => {
  const small = namespacedName('default', 'small');
  isMeasured = (service) => service === small;
  metrics = new ServiceMetrics({ kernel, plan: () => plan, isMeasured, limit: 1, realServers: false, log });
  demand(WEB, CLUSTER_IP);
  expect(await metrics.read()).toEqual([]);
  expect(kernel.calls.get('getVirtualServerStats')).toBeUndefined();
  demand(small, EXTERNAL);
  expect(await connections()).toEqual({ 'default/small:http/TCP': 0 });
  expect(log.lines).toEqual([]);
});

test('a limit of 0 for Service metrics logs nothing', async () => {
  demand(WEB, CLUSTER_IP);
  const off = new ServiceMetrics({ kernel, plan: () => plan, isMeasured, limit: 0, realServers: true, log });
  expect(await off.read()).toEqual([]);
  expect(log.lines).toEqual([]);
});

test('a kernel that cannot be read is logged once, and the scrape continues without Service metrics', async () => {
  demand(WEB, CLUSTER_IP);
  exist(CLUSTER_IP);
  kernel.setStats(CLUSTER_IP, { connections: 4 });
  expect(await connections()).toEqual({ 'default/web:http/TCP': 4 });
  kernel.failMethod('getRealServerStats', 'ENOBUFS');
  expect(await metrics.read()).toEqual([]);
  expect(await metrics.read()).toEqual([]);
  expect(log.lines).toHaveLength(1);
  kernel.recover();
  expect(await connections()).toEqual({ 'default/web:http/TCP': 4 });
});

test('the log line names the file that knows the problem as its caller', async () => {
  const written = new PassThrough();
  const logging = { format: 'text', verbosity: 0, vmodule: [], splitStream: false } as const;
  const output = { stdout: written, stderr: written, now: () => 0 };
  const control = createLog(logging, output);
  const options = { kernel, plan: () => plan, isMeasured, limit: 1, realServers: false, log: control.log };
  const others = [namespacedName('default', 'one'), namespacedName('default', 'two')];
  for (const name of others) demand(name, CLUSTER_IP);
  await new ServiceMetrics(options).read();
  expect(String(written.read())).toMatch(/ service-metrics\.ts:\d+\] "per-service metrics disabled: /);
});
