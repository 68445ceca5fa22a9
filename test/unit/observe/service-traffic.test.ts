import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { request } from 'node:http';
import type { Counter } from 'prom-client';
import { parseIp } from '../../../src/base/ip.ts';
import { ProxyHealth } from '../../../src/observe/health.ts';
import { healthServer } from '../../../src/observe/health-server.ts';
import { makeMetrics } from '../../../src/observe/metric-set.ts';
import { METRICS } from '../../../src/observe/metric-table.ts';
import { ProxyMetrics } from '../../../src/observe/proxy-metrics.ts';
import { type ServicePortTraffic, type Traffic, trafficText } from '../../../src/observe/service-traffic.ts';
import { TestLog } from '../../support/reconciling.ts';

function traffic(seed: number): Traffic {
  return {
    connections: seed,
    incomingPackets: 3 * seed,
    outgoingPackets: 5 * seed,
    incomingBytes: 2 ** 50 + seed,
    outgoingBytes: 1e21 * seed,
    activeConnections: seed % 7,
    inactiveConnections: seed % 11,
  };
}

function portTraffic(name: string, seed: number, realServers: number): ServicePortTraffic {
  return {
    namespace: 'default',
    service: name,
    portName: seed % 2 === 0 ? 'http' : '',
    protocol: 'TCP',
    ...traffic(seed),
    realServers: Array.from({ length: realServers }, (_, n) => ({
      realServer: `10.244.${n >> 8}.${n & 255}:8080`,
      ...traffic(seed + n),
    })),
  };
}

/** As the metrics library writes the same. */
async function referenceText(ports: readonly ServicePortTraffic[]): Promise<string> {
  const rows = Object.entries(METRICS).filter(([name]) => /^kubeipvs_(service|real_server)_/.test(name));
  const { registry, metrics } = makeMetrics(Object.fromEntries(rows));
  const set = (kind: 'service' | 'real_server', labels: Record<string, string>, counted: Traffic): void => {
    const values = {
      connections_total: counted.connections,
      incoming_packets_total: counted.incomingPackets,
      outgoing_packets_total: counted.outgoingPackets,
      incoming_bytes_total: counted.incomingBytes,
      outgoing_bytes_total: counted.outgoingBytes,
      active_connections: counted.activeConnections,
      inactive_connections: counted.inactiveConnections,
    };
    for (const [name, value] of Object.entries(values)) {
      (metrics[`kubeipvs_${kind}_${name}`] as Counter).inc(labels, value);
    }
  };
  for (const port of ports) {
    const { namespace, service, portName, protocol, realServers } = port;
    const labels = { namespace, service, port_name: portName, protocol };
    set('service', labels, port);
    for (const server of realServers) set('real_server', { ...labels, real_server: server.realServer }, server);
  }
  return await registry.metrics();
}

describe('traffic as text', () => {
  test.each<[string, readonly ServicePortTraffic[]]>([
    ['of nothing', []],
    ['of ports', [portTraffic('web', 1, 0), portTraffic('api', 2, 0)]],
    ['of ports and real servers', [portTraffic('web', 1, 3), portTraffic('api', 2, 0), portTraffic('db', 4, 2)]],
    ['of names that need escaping', [portTraffic('a"b\\c\nd\\n"', 1, 1)]],
    ['of numbers at the edges', [{ ...portTraffic('web', 0, 1), connections: Number.MAX_SAFE_INTEGER }]],
  ])('%s is what the metrics library writes', async (_, ports) => {
    // An empty line separates it from what comes before.
    expect([...trafficText(ports)].join('')).toBe(`\n${await referenceText(ports)}`);
  });
});

const LARGE = Array.from({ length: 100 }, (_, n) => portTraffic(`service-${n}`, n, 100));

function get(port: number | undefined, path: string): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const sent = request({ host: '127.0.0.1', port, path, agent: false }, (response) => {
    let size = 0;
    response.on('data', (chunk: Buffer) => (size += chunk.length));
    response.on('end', () => resolve(size));
  });
  sent.on('error', reject).end();
  return promise;
}

describe('a large exposition', () => {
  const closers: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    jest.restoreAllMocks();
    for (const close of closers.splice(0)) await close();
  });

  test('lets health be answered while its text is made', async () => {
    const server = healthServer({
      health: new ProxyHealth(1000),
      metrics: { probeAnswered: () => undefined },
      clock: { now: () => 0, wallNow: () => 0 },
      where: { address: parseIp('127.0.0.1')!, port: 0 },
      log: new TestLog(),
      hardFail: true,
    });
    closers.push(() => server.close());
    await server.start();
    const events: string[] = [];
    let health: Promise<unknown> = Promise.resolve();
    const metrics = new ProxyMetrics();
    metrics.observe({
      services: () => {
        // From here on every budget of time is used up as soon as somebody looks: a fast machine has no advantage.
        let clock = performance.now();
        jest.spyOn(performance, 'now').mockImplementation(() => (clock += 100));
        health = get(server.port, '/livez').then(() => events.push('health'));
        return Promise.resolve(LARGE);
      },
    });
    const pieces = await metrics.expose();
    events.push('exposition');
    await health;
    expect(events).toEqual(['health', 'exposition']);
    expect(pieces.length).toBeGreaterThan(100);
  });

  test('is made once for all who ask while it is made, and anew for who asks later', async () => {
    let reads = 0;
    const metrics = new ProxyMetrics();
    metrics.observe({
      services: () => {
        reads += 1;
        return Promise.resolve(LARGE);
      },
    });
    const all = await Promise.all([metrics.expose(), metrics.expose(), metrics.expose()]);
    expect(reads).toBe(1);
    expect(all[1]).toBe(all[0]);
    expect(await metrics.expose()).not.toBe(all[0]);
    expect(reads).toBe(2);
  });

  test('is made anew after one that failed', async () => {
    const metrics = new ProxyMetrics();
    metrics.observe({ services: () => Promise.reject(new Error('no')) });
    await expect(metrics.expose()).rejects.toThrow('no');
    metrics.observe({ services: () => Promise.resolve([]) });
    expect(await metrics.expose()).not.toHaveLength(0);
  });
});
