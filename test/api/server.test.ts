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
import { service, slice } from './harness.ts';

/** Tests features that older real servers lack; protocol.test.ts compares the others with a real one. */
let server: ApiServer;

beforeEach(async () => {
  server = new ApiServer();
  await server.start();
});

afterEach(() => server.stop());

interface Answer {
  readonly code: number;
  readonly body: Readonly<Record<string, unknown>>;
}

async function ask(path: string): Promise<Answer> {
  const response = await fetch(server.url + path);
  const answer: unknown = await response.json();
  return { code: response.status, body: isRecord(answer) ? answer : {} };
}

async function namesAt(path: string): Promise<string> {
  const { body } = await ask(path);
  const items = body['items'] as readonly { readonly metadata: { readonly name: string } }[];
  return items.map(({ metadata }) => metadata.name).join(' ');
}

/** Returns the first `count` lines of a watch. */
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
  test.each([
    ['a bad version', 400, '/api/v1/services?resourceVersion=x'],
    ['streaming without its match', 422, '/api/v1/services?watch=1&sendInitialEvents=true'],
  ])('%s is refused with %i', async (_name, code, path) => {
    expect(await ask(path)).toMatchObject({
      code,
      body: { kind: 'Status', status: 'Failure', code },
    });
  });

  test('unknown parameters are ignored, and requests are kept', async () => {
    expect(await ask('/api/v1/nodes?pretty=true&x=1')).toMatchObject({ code: 200, body: { kind: 'NodeList' } });
    expect(server.requests).toMatchObject([{ verb: 'list', resource: 'nodes', code: 200, query: { x: '1' } }]);
  });
});

describe('lists', () => {
  test('Services are selected by clusterIP', async () => {
    server.apply(service('a', '10.96.0.1'));
    server.apply(service('b', 'None'));
    expect(await namesAt('/api/v1/services?fieldSelector=spec.clusterIP!%3DNone')).toBe('a');
  });

  test('the pages of a list show the state of one moment, until it is compacted', async () => {
    for (const name of ['a', 'b', 'c', 'd']) server.apply(service(name, '10.96.0.1'));
    const first = await ask('/api/v1/services?limit=2');
    const { continue: token, resourceVersion } = first.body['metadata'] as Readonly<Record<string, string>>;
    server.delete(service('d', ''));
    server.apply(service('bb', '10.96.0.2'));
    expect(await namesAt(`/api/v1/services?limit=9&continue=${token}`)).toBe('c d');
    expect((await ask(`/api/v1/services?limit=9&continue=${token}`)).body['metadata']).toEqual({
      resourceVersion,
    });
    server.compact();
    expect(await ask(`/api/v1/services?continue=${token}`)).toMatchObject({
      code: 410,
      body: { reason: 'Expired' },
    });
  });
});

describe('watches', () => {
  test('a watch from a version has the later changes, as the selector sees them', async () => {
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

  test('a watch without a version, and a streaming list, begin with the whole state', async () => {
    server.apply(slice('a', ['10.0.0.1']));
    const path = '/apis/discovery.k8s.io/v1/endpointslices?watch=1&allowWatchBookmarks=1';
    expect(await watchLines(path, 1)).toMatchObject([{ type: 'ADDED', object: { metadata: { name: 'a' } } }]);
    expect(await watchLines(`${path}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan`, 2)).toMatchObject([
      { type: 'ADDED' },
      { type: 'BOOKMARK', object: { metadata: { annotations: { 'k8s.io/initial-events-end': 'true' } } } },
    ]);
  });

  test('a watch from a compacted version gets an ERROR event, then ends', async () => {
    server.apply(service('a', '10.96.0.1'));
    server.compact();
    const lines = await watchLines('/api/v1/services?watch=1&resourceVersion=1000', 9);
    expect(lines).toMatchObject([{ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired' } }]);
  });

  test('bookmarks are sent on request only; a watch ends after timeoutSeconds', async () => {
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
