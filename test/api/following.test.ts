import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import type { ReflectorTiming } from '../../src/kube/api/reflector-timing.ts';
import type { JsonObject } from '../apiserver/json-object.ts';
import { eventually } from '../unit/kube/eventually.ts';
import { PATIENCE_MS, onEachApiServer } from './each-api-server.ts';
import { Follower, node, service, slice } from './harness.ts';
import type { FollowOptions } from './harness.ts';

jest.setTimeout(120_000);

const PROXIED = { 'service.kubernetes.io/service-proxy-name': 'other' };
const HEADLESS = { 'service.kubernetes.io/headless': '' };
const OWN = /^default\/kubernetes@/;

/** Each Service has its own address, because the real server requires it. */
const addresses = new Map<string, string>();
function web(name: string, more: Partial<JsonObject['metadata']> = {}): JsonObject {
  if (!addresses.has(name)) addresses.set(name, `10.96.1.${addresses.size + 1}`);
  return service(name, addresses.get(name) ?? '', more);
}

onEachApiServer((server) => {
  let follower: Follower;

  beforeEach(() => {
    follower = new Follower();
  });

  afterEach(async () => {
    await follower.stop();
  });

  async function follow(
    timing: Partial<ReflectorTiming> = {},
    token = 'proxier',
    options: FollowOptions = {},
  ): Promise<void> {
    const access = { kubeconfig: await server().kubeconfig(token) };
    follower.start(access, { listIdleMs: PATIENCE_MS, ...timing }, options);
  }

  async function apply(...objects: readonly JsonObject[]): Promise<void> {
    for (const object of objects) await server().apply(object);
  }

  const until = (assertion: () => void): Promise<void> => eventually(assertion, PATIENCE_MS);

  /** Returns the objects that the source emitted, except those that the real server creates itself. */
  const seen = (kind: 'service' | 'endpoint-slice' | 'node'): readonly string[] =>
    follower.view.of(kind).filter((text) => !OWN.test(text));

  const names = (kind: 'service' | 'endpoint-slice' | 'node' = 'service'): string =>
    seen(kind)
      .map((text) => text.replace(/^.*\/(.*)@.*$/, '$1'))
      .join(' ');

  /** Returns the Services that the server has now, in the format of `seen`. */
  async function current(...wanted: readonly string[]): Promise<readonly string[]> {
    const all = await server().list('services');
    return all
      .filter(({ metadata: { name } }) => wanted.includes(name))
      .map(({ metadata }) => `${metadata.namespace}/${metadata.name}@${metadata.resourceVersion}`)
      .toSorted();
  }

  const kinds = (): string => follower.view.types('service').join(' ');

  describe('following', () => {
    test('the source reports all objects at once, then each change once', async () => {
      await apply(web('a'), web('b'), web('c'), web('d'), slice('a', ['10.0.0.1']), node('node-1'), node('node-2'));
      await follow();
      await until(() => expect(names()).toBe('a b c d'));
      await until(() => expect(names('endpoint-slice')).toBe('a'));
      await until(() => expect(names('node')).toBe('node-1'));
      await apply(web('e'), web('a', { labels: { app: 'web' } }));
      await server().delete(web('b'));
      const expected = await current('a', 'c', 'd', 'e');
      await until(() => expect(seen('service')).toEqual(expected));
      expect(kinds()).toBe('replaced applied applied deleted');
      expect(follower.log.lines).toEqual([]);
    });

    test('a list of more objects than a page is complete', async () => {
      const many = Array.from({ length: 10 }, (_, i) => `p${i}`);
      await apply(...many.map((name) => web(name)));
      await follow({ pageSize: 3 });
      await until(() => expect(names()).toBe(many.join(' ')));
      expect(kinds()).toBe('replaced');
    });

    test('a Service that gains a label of others is deleted, one that loses it appears; headless ones are never seen', async () => {
      await apply(web('a'), web('b', { labels: PROXIED }), service('c', 'None', { labels: HEADLESS }));
      await apply(slice('a', ['10.0.0.1']), slice('c', ['10.0.0.2'], HEADLESS));
      await follow();
      await until(() => expect(names()).toBe('a'));
      await until(() => expect(names('endpoint-slice')).toBe('a'));
      await apply(web('a', { labels: PROXIED }), web('b'));
      await until(() => expect(kinds()).toBe('replaced deleted applied'));
      expect(names()).toBe('b');
    });

    test('a Service that is deleted and created again under the same name', async () => {
      await apply(web('a'));
      await follow();
      await until(() => expect(names()).toBe('a'));
      await server().delete(web('a'));
      await apply(web('a'));
      const expected = await current('a');
      await until(() => expect(seen('service')).toEqual(expected));
      expect(kinds()).toBe('replaced deleted applied');
    });

    test('a burst of changes ends in the last state, with no change twice or out of order', async () => {
      await apply(slice('a', ['10.0.0.1']));
      await follow();
      await until(() => expect(names('endpoint-slice')).toBe('a'));
      const last = Array.from({ length: 40 }, (_, i) => slice('a', [`10.0.0.${i + 1}`, `10.0.1.${i + 1}`]));
      await apply(...last);
      const [{ metadata } = { metadata: undefined }] = await server().list('endpointslices');
      await until(() => expect(seen('endpoint-slice')).toEqual([`default/a@${metadata?.resourceVersion}`]));
      expect(follower.view.types('endpoint-slice')).toHaveLength(1 + last.length);
    });
  });

  describe('resuming', () => {
    test('a watch that the server ends regularly is resumed without a list', async () => {
      await apply(web('a'));
      await follow({ watchSeconds: [1, 1] });
      await until(() => expect(names()).toBe('a'));
      const { length } = follower.requested('services');
      await until(() => expect(follower.requested('services').length).toBeGreaterThan(length));
      await apply(web('b'));
      await until(() => expect(names()).toBe('a b'));
      expect(kinds()).toBe('replaced applied');
      expect(follower.log.messages('warn')).toEqual([]);
    });

    test('bookmarks advance the resourceVersion while no object of ours changes', async () => {
      await apply(web('a'));
      // The real server sends a bookmark two seconds before the end of a watch.
      await follow({ watchSeconds: [4, 4] });
      await until(() => expect(names()).toBe('a'));
      await apply(web('b', { labels: PROXIED }));
      const [text = ''] = await current('b');
      const version = Number(text.replace(/^.*@/, ''));
      await until(() =>
        expect(Number(follower.requested('services').at(-1)?.get('resourceVersion'))).toBeGreaterThanOrEqual(version),
      );
      expect(kinds()).toBe('replaced');
    });

    test('a server that restarts: no event is lost or repeated', async () => {
      await apply(web('a'), web('b'));
      await follow({ graceMs: PATIENCE_MS });
      await until(() => expect(names()).toBe('a b'));
      await server().restart();
      await apply(web('c'), web('b', { labels: { app: 'web' } }));
      await server().delete(web('a'));
      const expected = await current('b', 'c');
      await until(() => expect(seen('service')).toEqual(expected));
      expect(follower.log.messages('warn').join()).toMatch(/failed to list or watch services at the API server https:/);
    });
  });

  describe('credentials', () => {
    test('a Service is looked up ahead of the lists with the rights to list all', async () => {
      await apply(web('a'), slice('a', ['10.0.0.1']));
      await follow({}, 'proxier', { first: { namespace: 'default', name: 'a' } });
      await until(() => expect(names()).toBe('a'));
      await until(() => expect(names('endpoint-slice')).toBe('a'));
      await until(() => expect(follower.observations.filter(({ code }) => code === '200').length).toBeGreaterThan(4));
      expect(follower.observations.filter(({ code }) => code === '403')).toEqual([]);
    });

    test('an unknown token: one line, and recovery without a restart', async () => {
      await apply(web('a'));
      await follow({}, 'unknown');
      await until(() => expect(follower.observations.filter(({ code }) => code === '401').length).toBeGreaterThan(5));
      expect(follower.log.messages('error')).toEqual([expect.stringMatching(/rejected our credentials \(401: /)]);
      await server().kubeconfig('proxier');
      await until(() => expect(names()).toBe('a'));
    });

    test('a user without permissions: the missing permission is logged once for each resource', async () => {
      await apply(web('a'));
      await follow({}, 'stranger');
      const sentence =
        /^not allowed to list and watch services \(403: services is forbidden: User "stranger" cannot (list|watch) resource "services" in API group "" at the cluster scope/;
      await until(() => expect(follower.log.messages('error')).toContainEqual(expect.stringMatching(sentence)));
      // One error for each watched resource.
      await until(() => expect(follower.log.messages('error')).toHaveLength(3));
      const attempts = follower.observations.length + 9;
      await until(() => expect(follower.observations.length).toBeGreaterThan(attempts));
      expect(follower.log.messages('error')).toHaveLength(3);
    });
  });
});
