import { once } from 'node:events';
import { type IncomingHttpHeaders, request } from 'node:http';
import { type Server, type Socket, connect, createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { toPort } from '../../../src/base/port.ts';
import { VERSION } from '../../../src/config/version.ts';
import { parseIp } from '../../../src/base/ip.ts';
import { ProxyHealth } from '../../../src/observe/health.ts';
import { healthServer } from '../../../src/observe/health-server.ts';
import { HttpListener, answerPieces } from '../../../src/observe/http-listener.ts';
import { HttpServer } from '../../../src/observe/http-server.ts';
import type { Log, LogFields } from '../../../src/observe/log/log.ts';
import { type MetricsServerOptions, metricsServer } from '../../../src/observe/metrics-server.ts';
import { SliMetrics } from '../../../src/observe/sli-metrics.ts';
import { type ServiceHealthCheck, ServiceHealthServers } from '../../../src/observe/service-health-servers.ts';

const LOOPBACK = parseIp('127.0.0.1')!;
const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

class RecordingLog implements Log {
  readonly lines: string[] = [];
  error(message: string, _fields?: LogFields): void {
    this.lines.push(`E ${message}`);
  }
  warn(message: string): void {
    this.lines.push(`W ${message}`);
  }
  info(message: string): void {
    this.lines.push(`I ${message}`);
  }
  debug(): void {}

  enabled(): boolean {
    return false;
  }
  child(): Log {
    return this;
  }
}

interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

function fetchFrom(port: number | undefined, path: string, method = 'GET', body?: string): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, method, agent: false }, (response) => {
      let text = '';
      response.on('data', (chunk: Buffer) => (text += chunk.toString()));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/** Somebody else's listener. */
async function occupy(port = 0): Promise<{ port: number; release(): Promise<void> }> {
  const server: Server = createServer();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  const release = (): Promise<void> => new Promise((resolve) => server.close(() => resolve()));
  return { port: (server.address() as AddressInfo).port, release };
}

async function freePort(): Promise<number> {
  const other = await occupy();
  await other.release();
  return other.port;
}

describe('the health server', () => {
  async function start(health: ProxyHealth): Promise<{ server: HttpServer; answers: string[] }> {
    const answers: string[] = [];
    const metrics = { probeAnswered: (probe: string, code: number) => answers.push(`${probe} ${code}`) };
    const server = healthServer({
      health,
      metrics,
      clock: { now: () => 5000, wallNow: () => 5000 },
      where: { address: LOOPBACK, port: 0 },
      log: new RecordingLog(),
      hardFail: true,
    });
    closers.push(() => server.close());
    await server.start();
    return { server, answers };
  }

  test('answers and counts', async () => {
    const health = new ProxyHealth(1000);
    const { server, answers } = await start(health);
    health.started([4], 4000);
    const livez = await fetchFrom(server.port, '/livez?verbose');
    expect(livez.status).toBe(200);
    expect(livez.headers).toMatchObject({ 'content-type': 'application/json', 'x-content-type-options': 'nosniff' });
    expect(JSON.parse(livez.body)).toMatchObject({ healthy: true });
    expect((await fetchFrom(server.port, '/healthz')).status).toBe(503);
    health.nodeSeen({ deleting: false, taintKeys: [] });
    expect((await fetchFrom(server.port, '/healthz', 'POST', 'ignored')).status).toBe(200);
    health.queued(4000);
    expect((await fetchFrom(server.port, '/livez', 'HEAD')).status).toBe(503);
    expect(answers).toEqual(['livez 200', 'healthz 503', 'healthz 200', 'livez 503']);
  });

  test.each(['/', '/healthz/', '/livez/x', '/metrics', '//healthz', '*', '/%2e%2e/healthz'])(
    '%s is not found, and not counted',
    async (path) => {
      const { server, answers } = await start(new ProxyHealth(1000));
      expect((await fetchFrom(server.port, path)).status).toBe(404);
      expect(answers).toEqual([]);
    },
  );

  test('headers that are too large are refused', async () => {
    const { server } = await start(new ProxyHealth(1000));
    expect((await fetchFrom(server.port, `/livez?${'x'.repeat(9000)}`)).status).toBe(431);
  });
});

describe('a large answer', () => {
  const pieces = Array.from({ length: 400 }, () => Buffer.alloc(65_536, 'x'));

  async function serve(timeoutMs?: number): Promise<HttpListener> {
    const listener = await HttpListener.open({ address: LOOPBACK, port: 0 }, (_request, response) =>
      answerPieces(response, 200, { 'Content-Type': 'text/plain' }, pieces, timeoutMs),
    );
    closers.push(() => listener.close());
    return listener;
  }

  /** Sends a request and reads nothing. */
  async function ask(port: number): Promise<Socket> {
    const socket = connect(port, '127.0.0.1');
    closers.push(async () => socket.destroy());
    await once(socket, 'connect');
    socket.pause();
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    return socket;
  }

  test('is not kept for a client that does not read it', async () => {
    const { port } = await serve(100);
    const socket = await ask(port);
    // Longer than the two looks that the server takes at its progress.
    await sleep(1000);
    let size = 0;
    socket.on('data', (chunk: Buffer) => (size += chunk.length)).resume();
    await Promise.race([once(socket, 'close').catch(() => undefined), sleep(5000)]);
    expect(size).toBeGreaterThan(0);
    expect(size).toBeLessThan(400 * 65_536);
  });

  test('is a slow client given time for, as long as it goes on', async () => {
    const { port } = await serve(1000);
    const socket = await ask(port);
    let size = 0;
    const start = performance.now();
    while (performance.now() - start < 3000) {
      size += (socket.read() as Buffer | null)?.length ?? 0;
      await sleep(50);
    }
    while (size < 400 * 65_536 && !socket.destroyed) {
      size += (socket.read() as Buffer | null)?.length ?? 0;
      await sleep(0);
    }
    expect(size).toBeGreaterThanOrEqual(400 * 65_536);
  });

  test('may be given up in the middle: the server goes on', async () => {
    const { port } = await serve();
    for (let client = 0; client < 5; client++) {
      const socket = await ask(port);
      socket.once('data', () => socket.destroy()).resume();
      await once(socket, 'close');
    }
    expect((await fetchFrom(port, '/')).body).toHaveLength(400 * 65_536);
  });
});

describe('the metrics server', () => {
  async function start(part: Partial<MetricsServerOptions> = {}): Promise<number | undefined> {
    const server = metricsServer({
      mode: 'nftables',
      metrics: {
        expose: () => Promise.resolve([Buffer.from('m '), Buffer.from('1\n')]),
      },
      slis: { expose: () => Promise.resolve([Buffer.from('s 1\n')]) },
      configz: () => ({ a: { B: 1 } }),
      flagz: undefined,
      statusz: false,
      profiling: false,
      setVerbosity: () => undefined,
      where: { address: LOOPBACK, port: 0 },
      log: new RecordingLog(),
      hardFail: true,
      ...part,
    });
    closers.push(() => server.close());
    await server.start();
    return server.port;
  }

  test('an exposition of megabytes reaches each of those who share it whole', async () => {
    const pieces = Array.from({ length: 150 }, (_, n) => Buffer.alloc(65_537, String.fromCharCode(97 + (n % 26))));
    const port = await start({ metrics: { expose: () => Promise.resolve(pieces) } });
    const whole = Buffer.concat(pieces).toString();
    for (const { headers, body } of await Promise.all([1, 2, 3].map(() => fetchFrom(port, '/metrics')))) {
      expect(headers['content-length']).toBe(String(whole.length));
      expect(body === whole).toBe(true);
    }
  });

  test('an exposition is compressed for those who accept gzip', async () => {
    const whole = 'kubeipvs_sync_total{kind="full"} 1\n'.repeat(10_000);
    const pieces = [Buffer.from(whole.slice(0, 5)), Buffer.from(whole.slice(5))];
    const port = await start({ metrics: { expose: () => Promise.resolve(pieces) } });
    // fetch() decodes the body.
    const scrape = (accepted: string): Promise<Response> =>
      fetch(`http://127.0.0.1:${port}/metrics`, { headers: { 'Accept-Encoding': accepted } });
    const replies = await Promise.all(
      ['gzip', 'zstd, gzip;q=0.5', '*', 'identity', 'gzip;q=0', 'br'].map(async (accepted) => {
        const response = await scrape(accepted);
        const { headers } = response;
        return [headers.get('content-encoding'), headers.get('vary'), (await response.text()) === whole];
      }),
    );
    expect(replies).toEqual([
      ...Array.from({ length: 3 }, () => ['gzip', 'Accept-Encoding', true]),
      ...Array.from({ length: 3 }, () => [null, 'Accept-Encoding', true]),
    ]);
    const compressed = await scrape('gzip');
    expect(Number(compressed.headers.get('content-length'))).toBeLessThan(whole.length / 10);
  });

  test.each([
    ['/metrics', 'text/plain; version=0.0.4; charset=utf-8', 'm 1\n'],
    ['/metrics/slis', 'text/plain; version=0.0.4; charset=utf-8', 's 1\n'],
    ['/healthz', 'text/plain; charset=utf-8', 'ok'],
    ['/proxyMode', 'text/plain; charset=utf-8', 'nftables'],
    ['/configz', 'application/json', '{"a":{"B":1}}'],
  ])('%s', async (path, type, body) => {
    const reply = await fetchFrom(await start(), path);
    expect(reply).toMatchObject({ status: 200, body });
    expect(reply.headers).toMatchObject({ 'content-type': type, 'x-content-type-options': 'nosniff' });
  });

  test.each(['/', '/debug/heap', '/debug/cpu', '/debug/flags/v', '/debug/pprof/heap'])(
    '%s is not there without profiling',
    async (path) => {
      expect((await fetchFrom(await start(), path)).status).toBe(404);
    },
  );

  test('/flagz and /statusz are not there without their gates, each with its own', async () => {
    const flagz = (): string[] => ['a=1'];
    const found = async (part: Partial<MetricsServerOptions>): Promise<number[]> => {
      const port = await start(part);
      return [(await fetchFrom(port, '/flagz')).status, (await fetchFrom(port, '/statusz')).status];
    };
    expect(await found({})).toEqual([404, 404]);
    expect(await found({ flagz })).toEqual([200, 404]);
    expect(await found({ statusz: true })).toEqual([404, 200]);
  });

  test('/flagz: a title, a warning and the flags, none of which can forge a line or tell a password', async () => {
    const port = await start({ flagz: () => ['a=1', 'b=x\ny=2', 'master=https://me:pass@10.0.0.1'] });
    const { body, headers } = await fetchFrom(port, '/flagz?verbose');
    expect(headers).toMatchObject({ 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' });
    const [title, warning, ...rest] = body.split('\n');
    expect(title).toBe('kube-ipvs-proxy flagz');
    expect(warning).toMatch(/no program should rely on/);
    expect(rest).toEqual(['', 'a=1', 'b=x\\u000ay=2', 'master=https://[hidden]@10.0.0.1', '']);
  });

  test('/statusz: since when it runs, what it is, and the paths that are served', async () => {
    const port = await start({ statusz: true, profiling: true });
    const { body, headers } = await fetchFrom(port, '/statusz');
    expect(headers).toMatchObject({ 'content-type': 'text/plain; charset=utf-8' });
    const [title, warning, gap, started = '', ...rest] = body.split('\n');
    expect([title, gap]).toEqual(['kube-ipvs-proxy statusz', '']);
    expect(warning).toMatch(/no program should rely on/);
    expect(started).toMatch(/^Started: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    const age = Date.now() - Date.parse(started.slice('Started: '.length));
    expect(Math.abs(age / 1000 - process.uptime())).toBeLessThan(60);
    expect(rest).toEqual([
      expect.stringMatching(/^Up: (\d+h)?(\d+m)?\d+s$/),
      `Node.js version: ${process.version}`,
      `Binary version: ${VERSION}`,
      'Paths: /configz /debug/cpu /debug/flags/v /debug/heap /healthz /metrics /metrics/slis /proxyMode /statusz',
      '',
    ]);
  });

  test('the pages for people answer any method, a HEAD without a body', async () => {
    const port = await start({ flagz: () => ['a=1'], statusz: true });
    for (const path of ['/flagz', '/statusz']) {
      expect(await fetchFrom(port, path, 'HEAD')).toMatchObject({ status: 200, body: '' });
      expect((await fetchFrom(port, path, 'POST', 'ignored')).status).toBe(200);
    }
  });

  test('/metrics/slis: what each check says now, and how often it said what', async () => {
    const health = new ProxyHealth(1000);
    health.started([4], 4000);
    let now = 5000;
    const port = await start({ slis: new SliMetrics(health, { now: () => now, wallNow: () => now }) });
    const scrape = async (): Promise<string[]> => {
      const { body } = await fetchFrom(port, '/metrics/slis');
      return body.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    };
    const series = (livez: number, healthz: number, counts: readonly number[]): string[] => [
      `kubernetes_healthcheck{name="livez",type="livez"} ${livez}`,
      `kubernetes_healthcheck{name="healthz",type="healthz"} ${healthz}`,
      `kubernetes_healthchecks_total{name="livez",type="livez",status="success"} ${counts[0]}`,
      `kubernetes_healthchecks_total{name="livez",type="livez",status="error"} ${counts[1]}`,
      `kubernetes_healthchecks_total{name="healthz",type="healthz",status="success"} ${counts[2]}`,
      `kubernetes_healthchecks_total{name="healthz",type="healthz",status="error"} ${counts[3]}`,
    ];
    // No Node was seen yet.
    expect(await scrape()).toEqual(series(1, 0, [1, 0, 0, 1]));
    health.nodeSeen({ deleting: false, taintKeys: [] });
    expect(await scrape()).toEqual(series(1, 1, [2, 0, 1, 1]));
    health.queued(5000);
    now = 6000;
    expect(await scrape()).toEqual(series(0, 0, [2, 1, 1, 2]));
  });

  test('a failing exposition is a 500 that tells nothing', async () => {
    const metrics = { expose: () => Promise.reject(new Error('secret')) };
    expect(await fetchFrom(await start({ metrics }), '/metrics')).toMatchObject({
      status: 500,
      body: 'internal error\n',
    });
  });

  test('a CPU profile, one at a time', async () => {
    const port = await start({ profiling: true });
    const [first, second] = await Promise.all([
      fetchFrom(port, '/debug/cpu?seconds=1'),
      new Promise<Reply>((resolve, reject) =>
        setTimeout(() => void fetchFrom(port, '/debug/cpu').then(resolve, reject), 300),
      ),
    ]);
    expect(second.status).toBe(503);
    expect(first.status).toBe(200);
    const profile = JSON.parse(first.body) as { nodes: unknown[]; endTime: number; startTime: number };
    expect(profile.nodes.length).toBeGreaterThan(0);
    expect(profile.endTime - profile.startTime).toBeGreaterThan(900_000);
    expect((await fetchFrom(port, '/debug/cpu?seconds=no')).status).toBe(400);
  });

  test('a heap snapshot', async () => {
    const { status, body } = await fetchFrom(await start({ profiling: true }), '/debug/heap');
    expect(status).toBe(200);
    expect(body.slice(0, 12)).toBe('{"snapshot":');
    expect(body.trimEnd().endsWith('}')).toBe(true);
  }, 60_000);

  test.each([
    ['PUT', '4', 200, [4]],
    ['PUT', '10\n', 200, [10]],
    ['PUT', '', 400, []],
    ['PUT', '-1', 400, []],
    ['PUT', 'x'.repeat(100), 400, []],
    ['GET', undefined, 405, []],
  ] as const)('%s of %j to /debug/flags/v', async (method, body, status, levels) => {
    const seen: number[] = [];
    const port = await start({ profiling: true, setVerbosity: (level) => seen.push(level) });
    expect((await fetchFrom(port, '/debug/flags/v', method, body)).status).toBe(status);
    expect(seen).toEqual(levels);
  });
});

describe('binding', () => {
  function make(port: number, hardFail: boolean, log: Log): HttpServer {
    const server = new HttpServer({
      name: 'test server',
      where: { address: LOOPBACK, port },
      handler: (_request, response) => void response.end('hi'),
      log,
      hardFail,
      retryEvery: 20,
    });
    closers.push(() => server.close());
    return server;
  }

  test('a port that is taken is tried again until it is free', async () => {
    const other = await occupy();
    const log = new RecordingLog();
    const server = make(other.port, false, log);
    await server.start();
    expect(server.port).toBeUndefined();
    const where = `127.0.0.1:${other.port}`;
    expect(log.lines).toEqual([
      `E test server cannot listen on ${where}: listen EADDRINUSE: address already in use ${where}. ` +
        `Find the program that uses the port: \`ss -lntp 'sport = :${other.port}'\`; next attempt in 0.02 s`,
    ]);
    await other.release();
    for (let i = 0; i < 200 && server.port === undefined; i++) await new Promise((resolve) => setTimeout(resolve, 10));
    expect((await fetchFrom(other.port, '/')).body).toBe('hi');
    expect(log.lines.at(-1)).toBe('I test server listening');
  });

  test('or ends the start, with hardFail', async () => {
    const other = await occupy();
    closers.push(() => other.release());
    await expect(make(other.port, true, new RecordingLog()).start()).rejects.toThrow(
      `the test server cannot listen on 127.0.0.1:${other.port}: listen EADDRINUSE: address already in use 127.0.0.1:${other.port}`,
    );
  });

  test('close ends the retrying', async () => {
    const other = await occupy();
    const server = make(other.port, false, new RecordingLog());
    await server.start();
    await server.close();
    await other.release();
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(server.port).toBeUndefined();
    await expect(fetchFrom(other.port, '/')).rejects.toThrow('ECONNREFUSED');
  });

  test('close frees the port although a client holds a connection', async () => {
    const server = make(0, true, new RecordingLog());
    await server.start();
    const port = server.port ?? 0;
    const socket: Socket = await new Promise((resolve) => {
      const made = connect(port, '127.0.0.1', () => resolve(made));
    });
    socket.on('error', () => undefined);
    await server.close();
    const again = await occupy(port);
    expect(again.port).toBe(port);
    await again.release();
    socket.destroy();
  });
});

describe('health checks of services', () => {
  interface Bed {
    readonly servers: ServiceHealthServers;
    readonly failures: string[];
    healthy: boolean;
  }

  function bed(mostListeners = 10_000): Bed {
    const failures: string[] = [];
    const made: Bed = {
      healthy: true,
      failures,
      servers: new ServiceHealthServers({
        mostListeners,
        proxyHealthy: () => made.healthy,
        onBindFailure: ({ namespace, name }, address, reason, hint) =>
          failures.push(`${namespace}/${name} ${address} ${reason}${hint}`),
      }),
    };
    closers.push(() => made.servers.close());
    return made;
  }

  function check(port: number, localEndpoints: number, name = 'web'): ServiceHealthCheck {
    return { namespace: 'default', name, port: toPort(port)!, localEndpoints: { 4: localEndpoints } };
  }

  test('more ports than the process may open files for: the others are reported, once, and opened when there is room', async () => {
    const test = bed(2);
    const ports = [await freePort(), await freePort(), await freePort()].toSorted((a, b) => a - b);
    const checks = ports.map((port, index) => check(port, 1, `web-${index}`));
    for (const _ of [1, 2]) await test.servers.sync(checks, { 4: [LOOPBACK] });
    expect(test.failures).toEqual([
      `default/web-2 127.0.0.1:${ports[2]} 2 health check ports are open, as many as may be. Load balancers cannot check this node for the service. Raise the limit of open files of this process, or select fewer addresses (nodePortAddresses)`,
    ]);
    await test.servers.sync(checks.slice(1), { 4: [LOOPBACK] });
    expect((await fetchFrom(ports[2] ?? 0, '/')).status).toBe(200);
  });

  test('a thousand listeners do not hold the event loop, neither opened nor closed', async () => {
    const test = bed();
    const addresses = Array.from({ length: 1_000 }, (_, index) => parseIp(`127.9.${index >> 8}.${index & 255}`)!);
    const one = check(await freePort(), 1);
    // On this clock, a millisecond passes between two readings: a slow machine counts the same turns as a fast one.
    let ms = 0;
    const clock = jest.spyOn(performance, 'now').mockImplementation(() => ms++);
    let turns = 0;
    let counting = true;
    const turn = (): void => {
      turns += 1;
      if (counting) setImmediate(turn);
    };
    setImmediate(turn);
    const turnsOf = async (work: Promise<void>): Promise<number> => {
      const before = turns;
      await work;
      return turns - before;
    };
    try {
      const opening = await turnsOf(test.servers.sync([one], { 4: addresses }));
      const closing = await turnsOf(test.servers.sync([], { 4: addresses }));
      // At least one turn in ten milliseconds.
      expect(Math.min(opening, closing)).toBeGreaterThanOrEqual(addresses.length / 10);
    } finally {
      counting = false;
      clock.mockRestore();
    }
    expect(test.failures).toEqual([]);
  });

  test('every path, any method: by local endpoints and the health of the proxy', async () => {
    const test = bed();
    const port = await freePort();
    await test.servers.sync([check(port, 2)], { 4: [LOOPBACK] });
    const reply = await fetchFrom(port, '/any/path?x', 'PUT', 'body');
    expect(reply.status).toBe(200);
    expect(reply.body).toBe(
      '{\n\t"service": {\n\t\t"namespace": "default",\n\t\t"name": "web"\n\t},\n\t"localEndpoints": 2,\n\t"serviceProxyHealthy": true\n}\n',
    );
    expect(reply.headers).toMatchObject({
      'content-type': 'application/json',
      'x-content-type-options': 'nosniff',
      'x-load-balancing-endpoint-weight': '2',
    });
    test.healthy = false;
    const sick = await fetchFrom(port, '/');
    expect([sick.status, sick.headers['x-load-balancing-endpoint-weight']]).toEqual([503, '2']);
    test.healthy = true;
    await test.servers.sync([check(port, 0, 'other')], { 4: [LOOPBACK] });
    const none = await fetchFrom(port, '/');
    expect([none.status, none.headers['x-load-balancing-endpoint-weight']]).toEqual([503, '0']);
    expect(none.body).toContain('"name": "other"');
  });

  test('a port that is no longer wanted is closed, a new one opened', async () => {
    const { servers, failures } = bed();
    const [a, b] = [await freePort(), await freePort()];
    await servers.sync([check(a, 1)], { 4: [LOOPBACK] });
    expect((await fetchFrom(a, '/')).status).toBe(200);
    await servers.sync([check(b, 1)], { 4: [LOOPBACK] });
    await expect(fetchFrom(a, '/')).rejects.toThrow('ECONNREFUSED');
    expect((await fetchFrom(b, '/')).status).toBe(200);
    await servers.sync([], { 4: [LOOPBACK] });
    await expect(fetchFrom(b, '/')).rejects.toThrow('ECONNREFUSED');
    expect(failures).toEqual([]);
  });

  test('on each of several addresses, and on fewer', async () => {
    const { servers, failures } = bed();
    const port = await freePort();
    const second = parseIp('127.0.0.2')!;
    await servers.sync([check(port, 1)], { 4: [LOOPBACK, second] });
    expect((await fetchFrom(port, '/')).status).toBe(200);
    await servers.sync([check(port, 1)], { 4: [second] });
    await expect(fetchFrom(port, '/')).rejects.toThrow('ECONNREFUSED');
    await servers.sync([check(port, 1)], { 4: [LOOPBACK] });
    expect((await fetchFrom(port, '/')).status).toBe(200);
    expect(failures).toEqual([]);
  });

  test('each IP family has a listener of its own, which answers with its own count', async () => {
    const { servers, failures } = bed();
    const port = toPort(await freePort())!;
    const both = { namespace: 'default', name: 'web', port, localEndpoints: { 4: 2, 6: 0 } };
    await servers.sync([both], { 4: 'all', 6: 'all' });
    const answers = async (): Promise<unknown[]> => {
      const replies = ['127.0.0.1', '[::1]'].map((host) =>
        fetch(`http://${host}:${port}/`).then(
          async (reply) => [reply.status, ((await reply.json()) as { localEndpoints: number }).localEndpoints],
          () => 'refused',
        ),
      );
      return Promise.all(replies);
    };
    expect(await answers()).toEqual([
      [200, 2],
      [503, 0],
    ]);
    await servers.sync([{ ...both, localEndpoints: { 6: 1 } }], { 4: 'all', 6: 'all' });
    expect(await answers()).toEqual(['refused', [200, 1]]);
    await servers.sync([{ ...both, localEndpoints: { 4: 1, 6: 1 } }], { 4: 'all', 6: [] });
    expect(await answers()).toEqual([[200, 1], 'refused']);
    expect(failures).toEqual([]);
  });

  test('a port that is taken is told and tried again; others are not affected', async () => {
    const { servers, failures } = bed();
    const other = await occupy();
    const free = await freePort();
    await servers.sync([check(other.port, 1, 'unlucky'), check(free, 1)], { 4: [LOOPBACK] });
    expect(failures).toEqual([
      `default/unlucky 127.0.0.1:${other.port} listen EADDRINUSE: address already in use 127.0.0.1:${other.port}. ` +
        'Load balancers cannot check this node for the service. ' +
        `Find the program that uses the port: \`ss -lntp 'sport = :${other.port}'\``,
    ]);
    expect((await fetchFrom(free, '/')).status).toBe(200);
    // Told once, however often it is tried.
    await servers.sync([check(other.port, 1, 'unlucky'), check(free, 1)], { 4: [LOOPBACK] });
    expect(failures).toHaveLength(1);
    await other.release();
    await servers.sync([check(other.port, 1, 'unlucky'), check(free, 1)], { 4: [LOOPBACK] });
    expect((await fetchFrom(other.port, '/')).body).toContain('"name": "unlucky"');
    expect(failures).toHaveLength(1);
  });

  test('of two services with one port, the first has it', async () => {
    const { servers, failures } = bed();
    const port = await freePort();
    await servers.sync([check(port, 1, 'first'), check(port, 5, 'second')], { 4: [LOOPBACK] });
    expect((await fetchFrom(port, '/')).body).toContain('"name": "first"');
    expect(failures).toEqual([
      `default/second *:${port} port ${port} is already used by the health check of service default/first. ` +
        'Load balancers cannot check this node for the service. Change healthCheckNodePort in one of the two Services',
    ]);
  });

  test('syncs that overlap end as the last one says', async () => {
    const { servers, failures } = bed();
    const port = await freePort();
    await Promise.all([
      servers.sync([check(port, 1)], { 4: [LOOPBACK] }),
      servers.sync([], { 4: [LOOPBACK] }),
      servers.sync([check(port, 3)], { 4: [LOOPBACK] }),
    ]);
    expect((await fetchFrom(port, '/')).headers['x-load-balancing-endpoint-weight']).toBe('3');
    expect(failures).toEqual([]);
  });

  test('close frees the ports, and a later sync opens none', async () => {
    const { servers } = bed();
    const port = await freePort();
    await servers.sync([check(port, 1)], { 4: [LOOPBACK] });
    await servers.close();
    await servers.sync([check(port, 1)], { 4: [LOOPBACK] });
    await expect(fetchFrom(port, '/')).rejects.toThrow('ECONNREFUSED');
  });
});
