import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { readFileSync, readdirSync } from 'node:fs';
import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from '@jest/globals';
import { parseIp } from '../../../src/base/ip.ts';
import { toPort } from '../../../src/base/port.ts';
import { Connections, connectionLimits } from '../../../src/observe/connections.ts';
import { ProxyHealth } from '../../../src/observe/health.ts';
import { healthServer } from '../../../src/observe/health-server.ts';
import {
  type HttpHandler,
  HttpListener,
  answerPieces,
  answerText,
  pathOf,
} from '../../../src/observe/http-listener.ts';
import { metricsServer } from '../../../src/observe/metrics-server.ts';
import { ServiceHealthServers } from '../../../src/observe/service-health-servers.ts';
import { MANNERS, type Manner } from '../../support/slow-clients.ts';
import { TestLog } from '../../support/reconciling.ts';

const LOOPBACK = parseIp('127.0.0.1')!;
const WHERE = { address: LOOPBACK, port: 0 };
/** Two processes, so that neither needs more file descriptors than most machines allow. */
const ATTACKERS = 2;

const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function attack(port: number, connections: number, manner: Manner): Promise<void> {
  const script = 'test/support/slow-clients.ts';
  const start = (): ChildProcess =>
    spawn(process.execPath, [script, String(port), String(connections / ATTACKERS), manner], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
  const children = Array.from({ length: ATTACKERS }, start);
  closers.push(async () => {
    for (const child of children) {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    }
  });
  await Promise.all(children.map(async ({ stdout }) => (stdout === null ? undefined : once(stdout, 'data'))));
}

interface Probe {
  readonly status: number;
  readonly ms: number;
}

/** As a kubelet does: a new connection, one attempt. */
async function probe(port: number, path: string): Promise<Probe> {
  const started = performance.now();
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const sent = request({ host: '127.0.0.1', port, path, agent: false, timeout: 10_000 }, (response) => {
    response.resume().once('end', () => resolve(response.statusCode ?? 0));
  });
  sent.once('timeout', () => sent.destroy(new Error('no answer')));
  sent.once('error', reject);
  sent.end();
  return { status: await promise, ms: performance.now() - started };
}

/** Probes beside the attack and for two seconds after all of it is there. */
async function probeDuring(port: number, path: string, underWay: Promise<void>): Promise<readonly Probe[]> {
  const probes: Probe[] = [];
  let over = false;
  const end = underWay.then(() => sleep(2_000)).then(() => (over = true));
  while (!over) {
    probes.push(await probe(port, path));
    await sleep(20);
  }
  await end;
  return probes;
}

function connectionsTo(port: number): number {
  const local = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .filter((line) => {
      const [, at, , state] = line.trim().split(/\s+/);
      return at === local && state === '01';
    }).length;
}

function openFiles(): number {
  return readdirSync('/proc/self/fd').length;
}

async function freePort(): Promise<number> {
  const listener = await HttpListener.open(WHERE, () => undefined);
  const { port } = listener;
  await listener.close();
  return port;
}

const log = new TestLog();

const SERVERS: Record<string, { readonly path: string; readonly start: () => Promise<number> }> = {
  'the health server': {
    path: '/livez',
    start: async () => {
      const metrics = { probeAnswered: () => undefined };
      const clock = { now: () => 0, wallNow: () => 0 };
      const server = healthServer({ where: WHERE, log, hardFail: true, health: new ProxyHealth(1), metrics, clock });
      closers.push(() => server.close());
      await server.start();
      return server.port ?? 0;
    },
  },
  'the metrics server': {
    path: '/healthz',
    start: async () => {
      const none = { expose: () => Promise.resolve([]) };
      const options = {
        mode: 'ipvs',
        configz: () => ({}),
        flagz: undefined,
        statusz: false,
        profiling: false,
      } as const;
      const setVerbosity = (): void => undefined;
      const shared = { where: WHERE, log, hardFail: true, metrics: none, slis: none };
      const server = metricsServer({ ...shared, ...options, setVerbosity });
      closers.push(() => server.close());
      await server.start();
      return server.port ?? 0;
    },
  },
  'the health check of a service': {
    path: '/',
    start: async () => {
      const port = toPort(await freePort())!;
      const servers = new ServiceHealthServers({ proxyHealthy: () => true, onBindFailure: () => undefined });
      closers.push(() => servers.close());
      await servers.sync([{ namespace: 'default', name: 'web', port, localEndpoints: { 4: 1 } }], { 4: [LOOPBACK] });
      return port;
    },
  },
};

describe('5,000 half-open requests', () => {
  test.each(Object.entries(SERVERS))('%s answers each probe', async (name, { path, start }) => {
    const port = await start();
    const before = openFiles();
    const heap = process.memoryUsage().heapUsed;
    const probes = await probeDuring(port, path, attack(port, 5_000, 'never ends its headers'));
    const slowest = Math.max(...probes.map(({ ms }) => ms));
    const more = { files: openFiles() - before, heapMb: Math.round((process.memoryUsage().heapUsed - heap) / 2 ** 20) };
    process.stderr.write(
      `${name}: ${probes.length} probes, slowest ${Math.round(slowest)} ms ${JSON.stringify(more)}\n`,
    );
    expect(probes.filter(({ status }) => status !== 200)).toEqual([]);
    expect(slowest).toBeLessThan(5_000);
    expect(more.files).toBeLessThanOrEqual(300);
    expect(connectionsTo(port)).toBeLessThanOrEqual(256);
  });
});

describe('a probe is answered during hundreds of connections from clients, each of which', () => {
  // More than the kernel buffers for a client that does not read.
  const LARGE = Array.from({ length: 8 }, () => Buffer.alloc(2 ** 20, 'x'));

  test.each((Object.keys(MANNERS) as Manner[]).filter((manner) => manner !== 'never ends its headers'))(
    '%s',
    async (manner) => {
      const few = new Connections({ total: 64, perListener: 32 });
      const handler: HttpHandler = (request, response) => {
        if (pathOf(request) === '/large') answerPieces(response, 200, {}, LARGE);
        else answerText(response, 200, 'ok');
      };
      const listener = await HttpListener.open(WHERE, handler, few);
      closers.push(() => listener.close());
      const probes = await probeDuring(
        listener.port,
        '/livez',
        attack(listener.port, manner === 'never reads its answer' ? 100 : 600, manner),
      );
      const slowest = Math.max(...probes.map(({ ms }) => ms));
      process.stderr.write(`${manner}: ${probes.length} probes, slowest ${Math.round(slowest)} ms\n`);
      expect(probes.filter(({ status }) => status !== 200)).toEqual([]);
      expect(slowest).toBeLessThan(5_000);
    },
  );
});

describe('connections', () => {
  class FakeSocket extends Socket {
    readonly label: string;
    constructor(label: string) {
      super();
      this.label = label;
    }
  }

  function bed(total: number, perListener: number): { readonly all: Connections; readonly open: FakeSocket[] } {
    return { all: new Connections({ total, perListener }), open: [] };
  }

  function left(sockets: readonly FakeSocket[]): string {
    return sockets
      .filter(({ destroyed }) => !destroyed)
      .map(({ label }) => label)
      .join(' ');
  }

  const named = (...labels: readonly string[]): FakeSocket[] => labels.map((label) => new FakeSocket(label));

  test('a connection above the limit closes the one that has waited longest', () => {
    const { all } = bed(100, 4);
    const listener = all.listener();
    const sockets = named('a', 'b', 'c', 'd', 'e');
    const [a, b] = sockets;
    for (const socket of sockets.slice(0, 4)) listener.accepted(socket);
    listener.answering(a!);
    listener.answered(a!);
    listener.answering(b!);
    listener.accepted(sockets[4]!);
    expect(left(sockets)).toBe('a b d e');
  });

  test('responses never use the last quarter of the connections: the longest-running one is closed', () => {
    const { all } = bed(100, 4);
    const listener = all.listener();
    const sockets = named('a', 'b', 'c', 'd');
    for (const socket of sockets) listener.accepted(socket);
    for (const socket of sockets) listener.answering(socket);
    expect(left(sockets)).toBe('b c d');
  });

  test('above the total limit, the listener with the most connections closes its oldest one', () => {
    const { all } = bed(6, 5);
    const few = all.listener();
    const many = all.listener();
    const probes = named('p', 'q');
    const flood = named('1', '2', '3', '4', '5', '6');
    few.accepted(probes[0]!);
    for (const socket of flood) many.accepted(socket);
    few.accepted(probes[1]!);
    expect([left(probes), left(flood)]).toEqual(['p q', '3 4 5 6']);
  });

  test('a pipelined request closes the connection after the previous response', () => {
    const listener = bed(6, 5).all.listener();
    const [socket] = named('a');
    listener.accepted(socket!);
    expect([listener.answering(socket!), listener.answering(socket!)]).toEqual([true, false]);
    listener.answered(socket!);
    expect(listener.answering(socket!)).toBe(true);
  });

  test.each([
    [undefined, 1_024, 256],
    [1_048_576, 1_024, 256],
    [1_024, 448, 224],
    [256, 64, 32],
    [64, 16, 8],
  ])('of %p file descriptors: %d connections, %d for each listener', (files, total, perListener) => {
    expect(connectionLimits(files)).toEqual({ total, perListener });
  });
});
