import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { ApiServerOptions } from '../apiserver/api-server.ts';
import { CertificateAuthority } from '../apiserver/certificates.ts';
import { kubeconfig } from '../apiserver/kubeconfig.ts';
import { eventually } from '../unit/kube/eventually.ts';
import { Bed, service } from './harness.ts';

/** Listens but never accepts, because its thread blocks. The kernel drops the SYNs that exceed the backlog. */
const DEAF = `
  const { parentPort } = require('node:worker_threads');
  const server = require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
    parentPort.postMessage(server.address().port);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });
`;

let bed: Bed;
let directory: string;
const ends: (() => unknown)[] = [];

beforeEach(async () => {
  bed = new Bed();
  directory = await mkdtemp(join(tmpdir(), 'unreachable-'));
});

afterEach(async () => {
  await bed.stop();
  for (const end of ends.splice(0).toReversed()) await end();
  await rm(directory, { recursive: true });
});

/** Starts a TCP server that calls `serve` for each connection. Returns its address and port. */
async function tcpServer(serve: (socket: net.Socket) => void): Promise<string> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ends.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Returns an address at which no SYN is answered. */
async function blackHole(): Promise<string> {
  const worker = new Worker(DEAF, { eval: true });
  ends.push(() => worker.terminate());
  const port = await new Promise<number>((resolve) => worker.once('message', resolve));
  for (let tried = 0; tried < 16; tried++) {
    const socket = net.connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    ends.push(() => socket.destroy());
    const connected = new Promise<boolean>((resolve) => socket.once('connect', () => resolve(true)));
    if (!(await Promise.race([connected, sleep(300, false)]))) return `127.0.0.1:${port}`;
  }
  throw new Error('the backlog takes every connection');
}

async function bedWith(options: ApiServerOptions): Promise<string> {
  bed = new Bed(options);
  await bed.server.start();
  bed.server.apply(service('a', '10.96.0.1'));
  return new URL(bed.server.url).host;
}

async function firstWarning(): Promise<string> {
  await eventually(() => expect(bed.log.messages('warn')).not.toEqual([]));
  return bed.log.messages('warn')[0] ?? '';
}

const SHORT = { connectTimeoutMs: 300 };

describe('an API server that cannot be reached: the first line names its address and what happened', () => {
  test('dropped packets to the API server are named in the first line', async () => {
    const address = await blackHole();
    bed.follow({}, { master: `https://${address}`, ...SHORT });
    expect(await firstWarning()).toMatch(
      new RegExp(
        `^failed to list or watch \\w+ at the API server https://${address}: no TCP connection within 0.3 s, and no refusal: packets are dropped`,
      ),
    );
    // One warning for each watched resource, regardless of the number of attempts.
    await eventually(() => expect(bed.observations.length).toBeGreaterThan(8));
    expect(bed.log.messages('warn')).toHaveLength(3);
  });

  test('a TLS handshake that never ends is named in the first line', async () => {
    const address = await tcpServer(() => undefined);
    bed.follow({}, { master: `https://${address}`, ...SHORT });
    expect(await firstWarning()).toMatch(
      new RegExp(`at the API server https://${address}: TCP connected, but no TLS handshake`),
    );
  });

  test('a proxy that never responds is named in the first line', async () => {
    const address = await tcpServer(() => undefined);
    const path = join(directory, 'kubeconfig');
    await writeFile(
      path,
      kubeconfig({ server: 'https://192.0.2.1:6443', cluster: { 'proxy-url': `http://${address}` } }),
    );
    bed.follow({}, { kubeconfig: path, ...SHORT });
    expect(await firstWarning()).toMatch(
      /at the API server https:\/\/192.0.2.1:6443: no connection through the proxy within 0.3 s/,
    );
  });

  test('with the defaults, each of these is logged within ten seconds', async () => {
    const address = await tcpServer(() => undefined);
    const started = performance.now();
    bed.follow({}, { master: `https://${address}` });
    expect(await firstWarning()).toMatch(/no TLS handshake within 8 s/);
    expect(performance.now() - started).toBeLessThan(10_000);
  });
});

describe('a slow API server: logged once, and waited for', () => {
  test('an API server that sends no response headers is logged once', async () => {
    const address = await bedWith({});
    bed.server.faults.add({ resource: 'services', fault: { type: 'stall' } });
    bed.follow({}, { headersTimeoutMs: 1_000, slowMs: 200 });
    expect(await firstWarning()).toMatch(
      new RegExp(`^waiting for services from the API server http://${address}: no response after 0.2 s$`),
    );
    await eventually(() => expect(bed.view.names('service')).toBe('a'));
    expect(bed.log.messages('warn')).toEqual([
      expect.stringMatching(/^waiting for services/),
      expect.stringMatching(
        /^failed to list or watch services .*: the server received the request, but sent no response within 1 s/,
      ),
    ]);
    await eventually(() => expect(bed.log.messages('info')).toEqual(['watch on services re-established']));
  });

  test.each([
    ['a list', { watchList: false }, 'list'],
    ['a stream of the state', {}, 'watch'],
  ] as const)('the body of %s that stops in the middle is logged once', async (_what, options, verb) => {
    const address = await bedWith(options);
    bed.server.faults.add({ verb, resource: 'services', fault: { type: 'cut', afterBytes: 40, ending: 'silence' } });
    bed.follow({ slowMs: 1_000, listIdleMs: 1_800 });
    expect(await firstWarning()).toMatch(
      new RegExp(
        `^waiting for services from the API server http://${address}: the response began, then no data came for 1 s$`,
      ),
    );
    await eventually(() => expect(bed.view.names('service')).toBe('a'));
  });

  test('an idle watch is not logged as slow', async () => {
    await bedWith({});
    bed.follow({ slowMs: 50 });
    await eventually(() => expect(bed.server.watches.size).toBe(3));
    await sleep(300);
    expect(bed.log.lines).toEqual([]);
  });

  test('no credentials', async () => {
    await bedWith({});
    const path = join(directory, 'kubeconfig');
    const exec = {
      apiVersion: 'client.authentication.k8s.io/v1',
      command: 'sleep',
      args: ['0.6'],
      interactiveMode: 'Never',
    };
    await writeFile(path, kubeconfig({ server: bed.server.url, user: { exec } }));
    bed.follow({}, { kubeconfig: path, slowMs: 100, headersTimeoutMs: 400 });
    expect(await firstWarning()).toMatch(/still no credentials after 0.1 s: check the exec plugin of the kubeconfig$/);
  });
});

describe('a wrong scheme in the URL of the API server', () => {
  test('HTTP to an HTTPS port', async () => {
    const authority = await CertificateAuthority.create(directory);
    const { cert, key } = await authority.server();
    const address = await bedWith({ tls: { cert, key, ca: authority.ca.cert } });
    bed.follow({}, { master: `http://${address}` });
    expect(await firstWarning()).toMatch(
      new RegExp(
        `at the API server http://${address}: the server closed the connection without a response: if it expects HTTPS, write https:// before`,
      ),
    );
  });

  test('HTTP to an HTTPS port of a Go server, whose response says so', async () => {
    const text = 'Client sent an HTTP request to an HTTPS server.\n';
    const address = await tcpServer((socket) => {
      socket.once('data', () => socket.end(`HTTP/1.0 400 Bad Request\r\n\r\n${text}`));
    });
    bed.follow({}, { master: `http://${address}` });
    expect(await firstWarning()).toMatch(/plain HTTP was refused: the server probably expects HTTPS/);
  });

  test('HTTPS to an HTTP port', async () => {
    const address = await bedWith({});
    bed.follow({}, { master: `https://${address}` });
    expect(await firstWarning()).toMatch(
      new RegExp(
        `at the API server https://${address}: the response is not TLS: the server probably expects HTTP, but the URL says https`,
      ),
    );
  });
});
