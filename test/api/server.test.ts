import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { ApiServer } from '../apiserver/api-server.ts';
import { isRecord } from '../apiserver/json-object.ts';
import { node, service, slice } from './harness.ts';

/** The server that the other tests trust is held to what the real one does. */
let server: ApiServer;
const SERVICES = '/api/v1/namespaces/default/services';

beforeEach(async () => {
  server = new ApiServer();
  await server.start();
});

afterEach(() => server.stop());

interface Answer {
  readonly code: number;
  readonly body: Readonly<Record<string, unknown>>;
}

async function ask(
  method: string,
  path: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
  const response = await fetch(server.url + path, {
    method,
    headers: { ...(body === undefined ? {} : { 'Content-Type': contentType }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer: unknown = await response.json();
  return { code: response.status, body: isRecord(answer) ? answer : {} };
}

async function namesAt(path: string): Promise<string> {
  const { body } = await ask('GET', path);
  const items = body['items'] as readonly { readonly metadata: { readonly name: string } }[];
  return items.map(({ metadata }) => metadata.name).join(' ');
}

/** Lines of a watch until `count` have come. */
async function watchLines(path: string, count: number): Promise<readonly Readonly<Record<string, unknown>>[]> {
  const response = await fetch(server.url + path);
  const lines: Readonly<Record<string, unknown>>[] = [];
  let rest = '';
  for await (const chunk of response.body ?? []) {
    const parts = (rest + Buffer.from(chunk as Uint8Array).toString()).split('\n');
    rest = parts.pop() ?? '';
    lines.push(...parts.map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>));
    if (lines.length >= count) break;
  }
  return lines;
}

describe('objects', () => {
  test('create, read, update, patch, delete', async () => {
    const created = await ask('POST', SERVICES, service('a', '10.96.0.1'));
    expect(created).toMatchObject({ code: 201, body: { metadata: { name: 'a', resourceVersion: '1001' } } });
    expect(await ask('POST', SERVICES, service('a', '10.96.0.1'))).toMatchObject({
      code: 409,
      body: { reason: 'AlreadyExists' },
    });
    expect(await ask('PUT', `${SERVICES}/a`, created.body)).toMatchObject({
      code: 200,
      body: { metadata: { resourceVersion: '1002' } },
    });
    expect(await ask('PUT', `${SERVICES}/a`, created.body)).toMatchObject({ code: 409, body: { reason: 'Conflict' } });
    const patched = await ask('PATCH', `${SERVICES}/a`, {
      metadata: { labels: { x: 'y' } },
      spec: { clusterIPs: null },
    });
    expect(patched).toMatchObject({
      code: 200,
      body: { metadata: { labels: { x: 'y' } }, spec: { clusterIP: '10.96.0.1' } },
    });
    expect(patched.body['spec']).not.toHaveProperty('clusterIPs');
    expect(await ask('GET', `${SERVICES}/a`)).toMatchObject({ code: 200, body: { kind: 'Service' } });
    expect(await ask('DELETE', `${SERVICES}/a`)).toMatchObject({ code: 200, body: { status: 'Success' } });
    expect(await ask('GET', `${SERVICES}/a`)).toMatchObject({
      code: 404,
      body: { kind: 'Status', reason: 'NotFound' },
    });
  });

  test.each([
    ['an unknown path', 404, 'GET', '/apis/nothing/v1/things', undefined, {}],
    ['an unknown resource', 404, 'GET', '/api/v1/things', undefined, {}],
    ['a namespace for a Node', 404, 'GET', '/api/v1/namespaces/default/nodes', undefined, {}],
    ['a bad limit', 400, 'GET', '/api/v1/services?limit=x', undefined, {}],
    ['a bad timeout', 400, 'GET', '/api/v1/services?watch=1&timeoutSeconds=x', undefined, {}],
    ['a bad version', 400, 'GET', '/api/v1/services?resourceVersion=x', undefined, {}],
    ['a bad continue token', 400, 'GET', '/api/v1/services?continue=x', undefined, {}],
    ['a bad label selector', 400, 'GET', '/api/v1/services?labelSelector=a,,b', undefined, {}],
    ['an unknown field', 400, 'GET', '/api/v1/services?fieldSelector=spec.x%3D1', undefined, {}],
    ['a future version', 504, 'GET', '/api/v1/services?resourceVersion=9999', undefined, {}],
    ['an Accept without JSON', 406, 'GET', '/api/v1/services', undefined, { Accept: 'text/html' }],
    ['the wrong content type', 415, 'PUT', `${SERVICES}/a`, {}, { 'Content-Type': 'text/plain' }],
    ['another kind', 400, 'POST', SERVICES, node('a'), {}],
    ['another namespace', 400, 'POST', SERVICES, service('a', '10.96.0.1', { namespace: 'x' }), {}],
    ['a name that is none', 422, 'POST', SERVICES, service('A b', '10.96.0.1'), {}],
    [
      'a Service without ports',
      422,
      'POST',
      SERVICES,
      { ...service('a', '10.96.0.1'), spec: { clusterIP: '10.96.0.1' } },
      {},
    ],
    ['streaming without its match', 422, 'GET', '/api/v1/services?watch=1&sendInitialEvents=true', undefined, {}],
    ['a wrong token', 401, 'GET', '/api/v1/services', undefined, { Authorization: 'Bearer x' }],
  ])('%s is refused with %i', async (_name, code, method, path, body, headers) => {
    expect(await ask(method, path, body, headers)).toMatchObject({
      code,
      body: { kind: 'Status', status: 'Failure', code },
    });
  });

  test('unknown parameters are ignored, and requests are kept', async () => {
    expect(await ask('GET', '/api/v1/nodes?pretty=true&x=1')).toMatchObject({ code: 200, body: { kind: 'NodeList' } });
    expect(server.requests).toMatchObject([{ verb: 'list', resource: 'nodes', code: 200, query: { x: '1' } }]);
  });
});

describe('lists', () => {
  test('selectors', async () => {
    server.apply(service('a', '10.96.0.1', { labels: { app: 'x', tier: 'front' } }));
    server.apply(service('b', 'None', { labels: { app: 'y' } }));
    server.apply(service('c', '10.96.0.3', { namespace: 'other' }));
    const select = (query: string): Promise<string> => namesAt(`/api/v1/services?${query}`);
    expect(await select('labelSelector=app')).toBe('a b');
    expect(await select('labelSelector=!app')).toBe('c');
    expect(await select('labelSelector=app%3Dx')).toBe('a');
    expect(await select('labelSelector=app!%3Dx')).toBe('b c');
    expect(await select('labelSelector=app%20in%20(x,y),tier')).toBe('a');
    expect(await select('labelSelector=app%20notin%20(x)')).toBe('b c');
    expect(await select('fieldSelector=spec.clusterIP!%3DNone')).toBe('a c');
    expect(await select('fieldSelector=metadata.name%3Dc')).toBe('c');
    expect(await namesAt(SERVICES)).toBe('a b');
  });

  test('pages are of one moment, until it is compacted', async () => {
    for (const name of ['a', 'b', 'c', 'd']) server.apply(service(name, '10.96.0.1'));
    const first = await ask('GET', '/api/v1/services?limit=2');
    const { continue: token, resourceVersion } = first.body['metadata'] as Readonly<Record<string, string>>;
    server.delete(service('d', ''));
    server.apply(service('bb', '10.96.0.2'));
    expect(await namesAt(`/api/v1/services?limit=9&continue=${token}`)).toBe('c d');
    expect((await ask('GET', `/api/v1/services?limit=9&continue=${token}`)).body['metadata']).toEqual({
      resourceVersion,
    });
    server.compact();
    expect(await ask('GET', `/api/v1/services?continue=${token}`)).toMatchObject({
      code: 410,
      body: { reason: 'Expired' },
    });
  });
});

describe('watches', () => {
  test('from a version: what followed, as the selector sees it', async () => {
    server.apply(service('a', '10.96.0.1', { labels: { x: '' } }));
    const { revision } = server.store;
    server.apply(service('a', '10.96.0.1'));
    server.apply(service('a', '10.96.0.2', { labels: { x: '' } }));
    server.apply(service('a', '10.96.0.3', { labels: { x: '' } }));
    server.apply(service('b', '10.96.0.3'));
    const lines = await watchLines(`/api/v1/services?watch=1&labelSelector=x&resourceVersion=${revision}`, 3);
    expect(lines).toMatchObject([
      { type: 'DELETED', object: { metadata: { resourceVersion: String(revision + 1) } } },
      { type: 'ADDED', object: { kind: 'Service', spec: { clusterIP: '10.96.0.2' } } },
      { type: 'MODIFIED', object: { spec: { clusterIP: '10.96.0.3' } } },
    ]);
  });

  test('from nowhere, and as a stream of the whole state', async () => {
    server.apply(slice('a', ['10.0.0.1']));
    const path = '/apis/discovery.k8s.io/v1/endpointslices?watch=1&allowWatchBookmarks=1';
    expect(await watchLines(path, 1)).toMatchObject([{ type: 'ADDED', object: { metadata: { name: 'a' } } }]);
    expect(await watchLines(`${path}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan`, 2)).toMatchObject([
      { type: 'ADDED' },
      { type: 'BOOKMARK', object: { metadata: { annotations: { 'k8s.io/initial-events-end': 'true' } } } },
    ]);
  });

  test('from a version that is compacted: an ERROR event, then the end', async () => {
    server.apply(service('a', '10.96.0.1'));
    server.compact();
    const lines = await watchLines('/api/v1/services?watch=1&resourceVersion=1000', 9);
    expect(lines).toMatchObject([{ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired' } }]);
  });

  test('bookmarks only for those who asked; the end after timeoutSeconds', async () => {
    await server.stop();
    server = new ApiServer({ bookmarkMs: 10 });
    await server.start();
    expect(await watchLines('/api/v1/nodes?watch=1&allowWatchBookmarks=true', 1)).toMatchObject([{ type: 'BOOKMARK' }]);
    expect(await watchLines('/api/v1/nodes?watch=1&timeoutSeconds=1', 1)).toEqual([]);
  });
});

test('the command line: objects from a directory, a kubeconfig, the end on a signal', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'apiserver-'));
  try {
    await writeFile(join(directory, 'a.yaml'), JSON.stringify(service('a', '10.96.0.1')));
    const main = join(import.meta.dirname, '../apiserver/main.ts');
    const file = join(directory, 'kubeconfig');
    const child = spawn(process.execPath, [main, '--objects', directory, '--kubeconfig', file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [url] = (await once(createInterface(child.stdout), 'line')) as [string];
    expect(JSON.parse(await readFile(file, 'utf8'))).toMatchObject({ clusters: [{ cluster: { server: url } }] });
    const list = (await (await fetch(`${url}/api/v1/services`)).json()) as { readonly items: readonly unknown[] };
    expect(list.items).toHaveLength(1);
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([0, null]);
    const help = await promisify(execFile)(process.execPath, [main, '--help']);
    expect(help.stdout).toMatch(/^usage: /);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
