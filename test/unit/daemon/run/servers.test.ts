import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { startServers } from '../../../../src/daemon/run/servers.ts';
import { ProxyHealth } from '../../../../src/observe/health.ts';
import { ProxyMetrics } from '../../../../src/observe/proxy-metrics.ts';
import { configOf } from '../../../support/config.ts';
import { TestLog } from '../../../support/reconciling.ts';

async function listen(port = 0): Promise<Server> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  return server;
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

async function get(port: number, path: string): Promise<{ readonly status: number; readonly body: string }> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { Connection: 'close' } });
  return { status: response.status, body: await response.text() };
}

async function close(server: Server): Promise<void> {
  await new Promise((resolve) => server.close(resolve));
}

describe('startServers', () => {
  let taken: Server;
  let free: number;
  let refused: string[];

  beforeEach(async () => {
    taken = await listen();
    const other = await listen();
    free = portOf(other);
    await close(other);
    refused = [];
  });

  afterEach(() => close(taken));

  const start = (...flags: readonly string[]): ReturnType<typeof startServers> =>
    startServers(
      configOf(...flags),
      new ProxyHealth(1),
      new ProxyMetrics(),
      { log: new TestLog(), setVerbosity: () => undefined },
      (name, reason) => refused.push(`${name}: ${reason}`),
    );

  const at = (server: 'healthz' | 'metrics', port: number): string => `--${server}-bind-address=127.0.0.1:${port}`;

  test.each([
    ['metrics', 'healthz'],
    ['healthz', 'metrics'],
  ] as const)('hard fail: %s cannot listen, and the port of %s is free again', async (bad, good) => {
    const flags = [at(bad, portOf(taken)), at(good, free), '--bind-address-hard-fail'];
    await expect(start(...flags)).rejects.toThrow(/cannot listen on 127\.0\.0\.1:\d+: .*; free the port/);
    expect(refused).toEqual([expect.stringMatching(bad === 'metrics' ? /^metrics server: / : /^health server: /)]);
    await close(await listen(free));
  });

  test('without hard fail, a server whose port is in use retries until it listens', async () => {
    const servers = await start(at('metrics', portOf(taken)), at('healthz', free));
    expect(servers.map(({ port }) => port)).toEqual([free, undefined]);
    expect(refused).toEqual([]);
    for (const server of servers) await server.close();
    await close(await listen(free));
  });

  test.each([
    ['the default gates', [], [200, 200, 200]],
    ['ComponentFlagz off', ['--feature-gates=ComponentFlagz=false'], [404, 200, 200]],
    ['ComponentStatusz off', ['--feature-gates=ComponentStatusz=false'], [200, 404, 200]],
    ['AllBeta off', ['--feature-gates=AllBeta=false'], [404, 404, 200]],
  ] as const)('/flagz, /statusz and /metrics/slis with %s', async (_name, gates, expected) => {
    const servers = await start(at('metrics', free), '--healthz-bind-address=', ...gates);
    const replies = await Promise.all(['/flagz', '/statusz', '/metrics/slis'].map((path) => get(free, path)));
    for (const server of servers) await server.close();
    expect(replies.map(({ status }) => status)).toEqual(expected);
    expect(replies[0]?.body.includes(`\nmetrics-bind-address=127.0.0.1:${free}\n`)).toBe(expected[0] === 200);
    expect(replies[2]?.body).toContain('kubernetes_healthcheck{name="livez",type="livez"} 1\n');
  });

  test('no server is started for an empty address', async () => {
    expect(await start('--metrics-bind-address=', '--healthz-bind-address=')).toEqual([]);
  });
});
