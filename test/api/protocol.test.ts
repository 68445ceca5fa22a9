import { describe, expect, jest, test } from '@jest/globals';
import type { Answer, AskOptions } from '../apiserver/admin-client.ts';
import { onEachApiServer } from './each-api-server.ts';
import { node, service } from './harness.ts';

jest.setTimeout(60_000);

const SERVICES = '/api/v1/namespaces/default/services';

type Refusal = readonly [what: string, code: number, method: string, path: string, options?: AskOptions];

const REFUSALS: readonly Refusal[] = [
  ['an unknown resource', 404, 'GET', '/api/v1/things'],
  ['a namespace for a Node', 404, 'GET', '/api/v1/namespaces/default/nodes'],
  ['a bad limit', 400, 'GET', '/api/v1/services?limit=x'],
  ['a bad timeout', 400, 'GET', '/api/v1/services?watch=1&timeoutSeconds=x'],
  ['a bad continue token', 400, 'GET', '/api/v1/services?continue=x'],
  ['a bad label selector', 400, 'GET', '/api/v1/services?labelSelector=a,,b'],
  ['an unknown field', 400, 'GET', '/api/v1/services?fieldSelector=spec.x%3D1'],
  ['a future version', 504, 'GET', '/api/v1/services?resourceVersion=99999999'],
  ['an Accept without JSON', 406, 'GET', '/api/v1/services', { headers: { Accept: 'text/html' } }],
  ['the wrong content type', 415, 'PUT', `${SERVICES}/a`, { body: {}, headers: { 'Content-Type': 'text/plain' } }],
  ['another kind', 400, 'POST', SERVICES, { body: node('a') }],
  ['another namespace', 400, 'POST', SERVICES, { body: service('a', '10.96.3.1', { namespace: 'x' }) }],
  ['a name that is none', 422, 'POST', SERVICES, { body: service('A b', '10.96.3.1') }],
  [
    'a Service without ports',
    422,
    'POST',
    SERVICES,
    { body: { ...service('a', ''), spec: { clusterIP: '10.96.3.1' } } },
  ],
  ['a wrong token', 401, 'GET', '/api/v1/services', { token: 'unknown' }],
  ['what a user has no right to', 403, 'GET', '/api/v1/services', { token: 'stranger' }],
  ['an Event, for a proxy that reads it', 403, 'GET', '/apis/events.k8s.io/v1/events', { token: 'proxier' }],
];

/** Verifies that the server in memory behaves like the real one. */
onEachApiServer((server) => {
  async function namesAt(path: string): Promise<string> {
    const { body } = await server().ask('GET', path);
    const items = body['items'] as readonly { readonly metadata: { readonly name: string } }[];
    const names = items.map(({ metadata }) => metadata.name);
    return names.filter((name) => name !== 'kubernetes').join(' ');
  }

  test('objects can be created, read, updated, patched and deleted', async () => {
    const ask = (method: string, path: string, body?: unknown): Promise<Answer> =>
      server().ask(method, path, body === undefined ? {} : { body });
    const created = await ask('POST', SERVICES, service('a', '10.96.3.1'));
    expect(created).toMatchObject({ code: 201, body: { metadata: { name: 'a', uid: expect.any(String) } } });
    const updated = { ...created.body, metadata: { ...(created.body['metadata'] as object), labels: { x: 'y' } } };
    expect(await ask('PUT', `${SERVICES}/a`, updated)).toMatchObject({ code: 200 });
    expect(await ask('PUT', `${SERVICES}/a`, updated)).toMatchObject({ code: 409, body: { reason: 'Conflict' } });
    expect(await ask('PATCH', `${SERVICES}/a`, { metadata: { labels: { x: null, z: '' } } })).toMatchObject({
      code: 200,
      body: { metadata: { labels: { z: '' } }, spec: { clusterIP: '10.96.3.1' } },
    });
    expect(await ask('GET', `${SERVICES}/a`)).toMatchObject({ code: 200, body: { kind: 'Service' } });
    expect(await ask('DELETE', `${SERVICES}/a`)).toMatchObject({ code: 200 });
    expect(await ask('GET', `${SERVICES}/a`)).toMatchObject({
      code: 404,
      body: { kind: 'Status', reason: 'NotFound' },
    });
  });

  test.each(REFUSALS)('%s is refused with %i', async (_what, code, method, path, options = {}) => {
    expect(await server().ask(method, path, options)).toMatchObject({
      code,
      body: { kind: 'Status', status: 'Failure', code },
    });
  });

  test('an unknown group is not found', async () => {
    expect(await server().ask('GET', '/apis/nothing/v1/things')).toMatchObject({ code: 404 });
  });

  test('unknown parameters are ignored', async () => {
    expect(await server().ask('GET', '/api/v1/nodes?pretty=true&x=1')).toMatchObject({
      code: 200,
      body: { kind: 'NodeList' },
    });
  });

  describe('lists', () => {
    test('lists support selectors', async () => {
      await server().apply(service('a', '10.96.3.1', { labels: { app: 'x', tier: 'front' } }));
      await server().apply(service('b', '10.96.3.2', { labels: { app: 'y' } }));
      await server().apply(service('c', '10.96.3.3', { namespace: 'shop' }));
      const select = (query: string): Promise<string> => namesAt(`/api/v1/services?${query}`);
      expect(await select('labelSelector=app')).toBe('a b');
      expect(await select('labelSelector=!app')).toBe('c');
      expect(await select('labelSelector=app%3Dx')).toBe('a');
      expect(await select('labelSelector=app!%3Dx')).toBe('b c');
      expect(await select('labelSelector=app%20in%20(x,y),tier')).toBe('a');
      expect(await select('labelSelector=app%20notin%20(x)')).toBe('b c');
      expect(await select('fieldSelector=metadata.name%3Dc')).toBe('c');
      expect(await namesAt(SERVICES)).toBe('a b');
    });

    test('the pages of a list show the state of one moment', async () => {
      const path = '/api/v1/namespaces/shop/services';
      for (const [i, name] of ['a', 'b', 'c', 'd'].entries())
        await server().apply(service(name, `10.96.3.${i + 1}`, { namespace: 'shop' }));
      const first = await server().ask('GET', `${path}?limit=2`);
      const { continue: token = '' } = first.body['metadata'] as Readonly<Record<string, string>>;
      expect(token).not.toBe('');
      await server().delete(service('d', '', { namespace: 'shop' }));
      await server().apply(service('bb', '10.96.3.9', { namespace: 'shop' }));
      expect(await namesAt(`${path}?limit=9&continue=${encodeURIComponent(token)}`)).toBe('c d');
    });
  });
});
