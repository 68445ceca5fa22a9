import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from '@jest/globals';
import { Cluster } from '../../src/model/cluster.ts';
import type { ApiServerOptions } from '../apiserver/api-server.ts';
import { expired, StatusError } from '../apiserver/status.ts';
import { eventually } from '../unit/kube/eventually.ts';
import { Bed, JSON_ONLY, node, service, slice } from './harness.ts';

let bed: Bed;

async function serverWith(options: ApiServerOptions, ...names: readonly string[]): Promise<void> {
  bed = new Bed(options);
  await bed.server.start();
  for (const name of names) bed.server.apply(service(name, '10.96.0.1'));
}

async function followed(names: string): Promise<void> {
  await eventually(() => expect(bed.view.names('service')).toBe(names));
  await eventually(() => expect(bed.server.watches.size).toBe(3));
}

function requestsOf(verb: string, resource = 'services'): readonly Readonly<Record<string, string>>[] {
  return bed.server.requests
    .filter((entry) => entry.verb === verb && entry.resource === resource)
    .map((entry) => entry.query);
}

afterEach(() => bed.stop());

describe('following', () => {
  test.each([
    ['a server that streams its state', {}],
    ['a server that only lists', { watchList: false }],
  ])('%s: all objects at once, then each change once', async (_name, options) => {
    await serverWith(options, 'a', 'b', 'c', 'd');
    bed.server.apply(slice('a', ['10.0.0.1']));
    bed.server.apply(node('node-1'));
    bed.server.apply(node('node-2'));
    bed.follow();
    await followed('a b c d');
    await eventually(() => expect(bed.view.names('node')).toBe('node-1'));
    await eventually(() => expect(bed.view.names('endpoint-slice')).toBe('a'));
    bed.server.apply(service('e', '10.96.0.5'));
    bed.server.apply(service('a', '10.96.0.6'));
    bed.server.delete(service('b', ''));
    await eventually(() => expect(bed.view.of('service')).toEqual(bed.expected('services')));
    expect(bed.view.types('service')).toEqual(['replaced', 'applied', 'applied', 'deleted']);
    expect(bed.log.lines.filter(({ level }) => level !== 'debug')).toEqual([]);
  });

  test('a list in pages with changes in between is followed by a watch from the version of the list', async () => {
    await serverWith({ watchList: false }, 'a', 'b', 'c', 'd', 'e', 'f', 'g');
    bed.server.faults.add({
      verb: 'list',
      resource: 'services',
      continued: true,
      fault: { type: 'slow', bytes: 200, pauseMs: 1 },
    });
    // A page that is slow because the machine is busy must not time out.
    bed.follow({ listIdleMs: 10_000 });
    await eventually(() => expect(requestsOf('list').length).toBeGreaterThan(1));
    bed.server.delete(service('b', ''));
    bed.server.apply(service('g', '10.96.0.77'));
    bed.server.apply(service('h', '10.96.0.8'));
    await followed('a c d e f g h');
    expect(bed.view.of('service')).toEqual(bed.expected('services'));
    // All pages are from one revision, so changes between the pages follow as events.
    expect(bed.view.types('service')).toEqual(['replaced', 'deleted', 'applied', 'applied']);
    const [first, second] = requestsOf('list');
    expect(first).toMatchObject({ limit: '3', resourceVersion: '0' });
    expect(second).not.toHaveProperty('resourceVersion');
    expect(second).toHaveProperty('continue');
  });

  test('after an expired continue token, the list starts again from the newest state', async () => {
    await serverWith({ watchList: false }, 'a', 'b', 'c', 'd');
    bed.server.faults.add({ verb: 'list', resource: 'services', continued: true, fault: { type: 'expire' } });
    bed.follow();
    await followed('a b c d');
    expect(bed.view.types('service')).toEqual(['replaced']);
    const firstPages = requestsOf('list').filter((query) => !('continue' in query));
    expect(firstPages.map((query) => query['resourceVersion'])).toEqual(['0', undefined]);
  });

  test('a list from the cache that ignores the limit', async () => {
    await serverWith({ watchList: false, cacheIgnoresLimit: true }, 'a', 'b', 'c', 'd', 'e');
    bed.follow();
    await followed('a b c d e');
    expect(requestsOf('list')).toHaveLength(1);
  });

  test('an invalid list is logged and requested again', async () => {
    await serverWith({ watchList: false }, 'a');
    bed.server.faults.add({ verb: 'list', resource: 'services', fault: { type: 'garbage', line: '<html>' } });
    bed.server.faults.add({ verb: 'list', resource: 'services', fault: { type: 'garbage', line: '{"items":[{bad}]' } });
    bed.follow({}, JSON_ONLY);
    await followed('a');
    expect(bed.log.messages('warn').filter((line) => line.includes('the list is not valid JSON'))).toHaveLength(2);
  });

  test('the parameters of the requests', async () => {
    await serverWith({});
    bed.follow({ watchSeconds: [300, 600] });
    await eventually(() => expect(bed.server.watches.size).toBe(3));
    const [services] = requestsOf('watch');
    expect(services).toMatchObject({
      allowWatchBookmarks: 'true',
      sendInitialEvents: 'true',
      resourceVersionMatch: 'NotOlderThan',
      labelSelector: '!service.kubernetes.io/service-proxy-name',
      fieldSelector: 'spec.clusterIP!=None',
    });
    expect(Number(services?.['timeoutSeconds'])).toBeGreaterThanOrEqual(300);
    expect(Number(services?.['timeoutSeconds'])).toBeLessThanOrEqual(600);
    expect(requestsOf('watch', 'endpointslices')[0]?.['labelSelector']).toBe('!service.kubernetes.io/headless');
    expect(requestsOf('watch', 'nodes')[0]?.['fieldSelector']).toBe('metadata.name=node-1');
    expect(bed.server.requests[0]?.userAgent).toMatch(/^kube-proxy\/v1\.2\.3 \(linux\/\w+\) kube-ipvs-proxy$/);
    expect(bed.observations[0]).toMatchObject({ method: 'GET', code: '200', host: new URL(bed.server.url).host });
  });

  test('a server that cannot select by clusterIP: selectors by label', async () => {
    await serverWith({ clusterIpSelector: false }, 'a');
    bed.follow();
    await followed('a');
    expect(requestsOf('watch').at(-1)?.['labelSelector']).toBe('!service.kubernetes.io/service-proxy-name');
    expect(requestsOf('watch').at(-1)).not.toHaveProperty('fieldSelector');
    expect(bed.log.lines).toEqual([]);
  });

  test.each([
    [
      'its etcd is too old for progress requests',
      { requestWatchProgress: false },
      /RequestWatchProgress is disabled\)$/,
    ],
    ['it does not know WatchList', { watchList: false }, /sendInitialEvents/],
  ])(
    'a server that cannot stream (%s) is listed and watched immediately and permanently, without a log line',
    async (_why, options, why) => {
      await serverWith(options, 'a');
      bed.follow();
      await followed('a');
      // Expire the watch, so that the source lists again.
      bed.server.compact();
      bed.server.eachWatch((watch) => (watch.error(expired('too old')), watch.end()));
      bed.server.apply(service('b', '10.96.0.2'));
      await followed('a b');
      const streams = bed.server.requests.filter(({ query }) => 'sendInitialEvents' in query);
      // All three reflectors may request a stream before the first one is refused.
      expect(streams.length).toBeLessThanOrEqual(3);
      expect(new Set(streams.map(({ resource }) => resource)).size).toBe(streams.length);
      expect(bed.log.lines).toEqual([{ level: 'debug', message: expect.stringMatching(why), fields: {} }]);
    },
  );

  test('WatchList refused once: later watches do not request it', async () => {
    await serverWith({ requestWatchProgress: false }, 'kubernetes');
    const { promise: programmed, resolve } = Promise.withResolvers<void>();
    bed.follow({}, {}, { first: { namespace: 'default', name: 'kubernetes' }, programmed });
    await eventually(() => expect(bed.log.messages('debug')).toHaveLength(1));
    resolve();
    await followed('kubernetes');
    const streams = bed.server.requests.filter(({ query }) => 'sendInitialEvents' in query);
    expect(streams.map(({ resource }) => resource)).toEqual(['nodes']);
  });

  test.each([{}, { clusterIpSelector: false }, { clusterIpSelector: false, labelSelectors: false }])(
    'a Service that gets a label of another proxy is removed, and added when it loses the label: %j',
    async (options) => {
      await serverWith(options, 'a', 'b');
      const cluster = new Cluster('node-1');
      bed.follow({}, {}, { also: (event) => cluster.apply(event) });
      await eventually(() => expect(bed.server.watches.size).toBe(3));
      bed.server.apply(service('none', 'None'));
      const served = (): readonly string[] => cluster.names().filter((name) => cluster.hasEndpoints(name));
      for (const [label, expected] of [
        ['', ['default/a', 'default/b']],
        ['service.kubernetes.io/service-proxy-name', ['default/b']],
        ['service.kubernetes.io/headless', ['default/a', 'default/b']],
      ] as const) {
        const labels: Record<string, string> = label === '' ? {} : { [label]: '' };
        bed.server.apply(service('a', '10.96.0.1', { labels }));
        // The EndpointSlice controller copies the Service's labels, except the headless label, to its slices.
        bed.server.apply(slice('a', ['10.0.0.1'], label.endsWith('headless') ? {} : labels));
        bed.server.apply(slice('b', ['10.0.0.2']));
        await eventually(() => expect(served().toSorted()).toEqual(expected));
        expect(cluster.names().toSorted()).toEqual(expected);
      }
      expect(bed.log.lines).toEqual([]);
    },
  );
});

describe('resuming', () => {
  test('a watch that the server ends regularly is resumed without a list', async () => {
    await serverWith({}, 'a');
    bed.follow({ watchSeconds: [1, 1] });
    await followed('a');
    await eventually(() => expect(requestsOf('watch').length).toBeGreaterThan(1));
    bed.server.apply(service('b', '10.96.0.2'));
    await followed('a b');
    expect(bed.view.types('service')).toEqual(['replaced', 'applied']);
    expect(requestsOf('watch')[1]).toMatchObject({ resourceVersion: '1001' });
    expect(bed.log.lines).toEqual([]);
  });

  test('lost connections: no event lost or repeated', async () => {
    await serverWith({}, 'a');
    bed.follow();
    await followed('a');
    for (const name of ['b', 'c', 'd']) {
      bed.server.dropConnections();
      bed.server.apply(service(name, '10.96.0.2'));
      await eventually(() => expect(bed.view.of('service')).toEqual(bed.expected('services')));
    }
    expect(bed.view.types('service')).toEqual(['replaced', 'applied', 'applied', 'applied']);
    await eventually(() => expect(bed.log.messages('info')).toContain('watch on services re-established'));
  });

  test('bookmarks advance the resourceVersion, so that compaction causes no list', async () => {
    await serverWith({}, 'a');
    bed.follow();
    await followed('a');
    bed.server.apply(node('node-9'));
    bed.server.compact();
    bed.server.eachWatch((watch) => (watch.bookmark(), watch.end()));
    await eventually(() => expect(bed.requested('services').at(-1)?.get('resourceVersion')).toBe('1002'));
    bed.server.apply(service('b', '10.96.0.2'));
    await followed('a b');
    expect(bed.view.types('service')).toEqual(['replaced', 'applied']);
  });

  test.each([
    ['as an event of the watch', () => bed.server.eachWatch((watch) => (watch.error(expired()), watch.end()))],
    ['on resuming', () => bed.server.dropConnections()],
    [
      'as an HTTP status',
      () => {
        bed.server.faults.add({ verb: 'watch', resource: 'services', fault: { type: 'status', code: 410 } });
        bed.server.dropConnections();
      },
    ],
  ])('an expired version %s: one new list', async (_name, expire) => {
    await serverWith({}, 'a', 'b');
    bed.follow();
    await followed('a b');
    // Make these changes without a watch, so that only a new list contains them.
    bed.server.eachWatch((watch) => watch.silence());
    bed.server.apply(service('c', '10.96.0.3'));
    bed.server.delete(service('a', ''));
    bed.server.compact();
    expire();
    bed.server.dropConnections();
    await followed('b c');
    expect(bed.view.types('service')).toEqual(['replaced', 'replaced']);
  });
});

describe('an etcd that was restored from a backup', () => {
  test.each([
    ['the API server ends abruptly', () => bed.server.dropConnections()],
    ['the API server ends its watches', () => bed.server.eachWatch((watch) => watch.end())],
  ])('%s: one new list of each resource, and the watch continues behind it', async (_name, end) => {
    await serverWith({}, 'a', 'b');
    bed.follow();
    await followed('a b');
    const restore = bed.server.store.backup();
    bed.server.apply(service('c', '10.96.0.3'));
    bed.server.delete(service('a', ''));
    bed.server.apply(node('node-1'));
    await followed('b c');
    const { port } = bed.server;
    end();
    await bed.server.stop();
    restore();
    await bed.server.start(port);
    await followed('a b');
    await eventually(() => expect(bed.view.names('node')).toBe(''));
    bed.server.apply(service('d', '10.96.0.4'));
    await followed('a b d');
    expect(bed.view.types('service')).toEqual(['replaced', 'applied', 'deleted', 'replaced', 'applied']);
    expect(bed.log.messages('warn')).toContainEqual(
      expect.stringMatching(
        /^the API server's state is older than ours \(resourceVersion 1002, ours is 100\d\): .*services/,
      ),
    );
  });

  test('a watch that broke is resumed without a list if the API server has everything that we know', async () => {
    await serverWith({}, 'a', 'b');
    bed.follow();
    await followed('a b');
    bed.server.dropConnections();
    bed.server.apply(service('c', '10.96.0.3'));
    await followed('a b c');
    expect(bed.view.types('service')).toEqual(['replaced', 'applied']);
    expect(requestsOf('list')).toMatchObject([{ limit: '1' }]);
    expect(requestsOf('list')[0]).not.toHaveProperty('resourceVersion');
  });
});

describe('faults', () => {
  test('a server that is down at start is used when it comes up', async () => {
    await serverWith({});
    const { port } = bed.server;
    await bed.server.stop();
    bed = new Bed();
    bed.follow({}, { master: `http://127.0.0.1:${port}` });
    await eventually(() =>
      expect(bed.log.messages('warn').some((line) => line.includes('failed to list or watch services'))).toBe(true),
    );
    bed.server.apply(service('a', '10.96.0.1'));
    await bed.server.start(port);
    await followed('a');
    expect(bed.log.messages('warn').filter((line) => line.includes('list or watch services'))).toHaveLength(1);
    expect(bed.observations.some((observation) => observation.code === '<error>')).toBe(true);
  });

  test('500 and 429 with Retry-After', async () => {
    await serverWith({}, 'a');
    bed.server.faults.add({ resource: 'services', fault: { type: 'status', code: 500 } });
    bed.server.faults.add({ resource: 'services', fault: { type: 'status', code: 429, retryAfterSeconds: 1 } });
    const started = performance.now();
    bed.follow();
    await followed('a');
    expect(performance.now() - started).toBeGreaterThanOrEqual(995);
    expect(
      bed.log.messages('warn').some((line) => line.includes('requests for services throttled by the API server (429)')),
    ).toBe(true);
  });

  test('a list that breaks off is repeated, and no part of it is emitted', async () => {
    await serverWith({ watchList: false }, 'a', 'b', 'c', 'd');
    bed.server.faults.add({
      verb: 'list',
      resource: 'services',
      continued: true,
      fault: { type: 'cut', afterBytes: 40, ending: 'close' },
    });
    bed.server.faults.add({
      verb: 'list',
      resource: 'services',
      continued: true,
      fault: { type: 'cut', afterBytes: 40, ending: 'silence' },
    });
    bed.follow();
    await followed('a b c d');
    expect(bed.view.types('service')).toEqual(['replaced']);
  });

  test('a WatchList that stops in the middle: pages instead, and no part of it is emitted', async () => {
    await serverWith({}, 'a', 'b', 'c');
    bed.server.faults.add({
      verb: 'watch',
      resource: 'services',
      fault: { type: 'cut', afterBytes: 300, ending: 'silence' },
    });
    bed.follow();
    await followed('a b c');
    expect(bed.view.types('service')).toEqual(['replaced']);
    expect(requestsOf('list')).toHaveLength(1);
  });

  test('a connection dropped without a response, and a response that never comes', async () => {
    await serverWith({}, 'a');
    bed.server.faults.add({ resource: 'services', fault: { type: 'drop' } });
    bed.server.faults.add({ resource: 'services', fault: { type: 'stall' } });
    bed.follow({}, { headersTimeoutMs: 50 });
    await followed('a');
    expect(bed.view.types('service')).toEqual(['replaced']);
    expect(bed.log.messages('warn').join()).toMatch(
      /services at the API server \S+: the server received the request, but sent no response/,
    );
  });

  test('an invalid line: logged, the watch restarted, no event lost', async () => {
    await serverWith({}, 'a');
    bed.follow({}, JSON_ONLY);
    await followed('a');
    bed.server.eachWatch((watch) => watch.raw('<html>502</html>\n'), 'services');
    bed.server.apply(service('b', '10.96.0.2'));
    await followed('a b');
    expect(bed.log.messages('warn').join()).toMatch(
      /unreadable response for services from .*: a line of the watch is not valid JSON/,
    );
    expect(bed.view.types('service')).toEqual(['replaced', 'applied']);
  });

  test('an object without a name is skipped, and the watch continues', async () => {
    await serverWith({}, 'a');
    bed.follow({}, JSON_ONLY);
    await followed('a');
    const { length } = bed.requested('services');
    bed.server.eachWatch(
      (watch) => watch.raw('{"type":"ADDED","object":{"metadata":{"resourceVersion":"1001"}}}\n'),
      'services',
    );
    bed.server.apply(service('b', '10.96.0.2'));
    await followed('a b');
    expect(bed.log.messages('warn')).toEqual(['ignoring a watch event of services: the Service has no metadata.name']);
    expect(bed.requested('services')).toHaveLength(length);
  });

  test('a truncated event', async () => {
    await serverWith({}, 'a');
    bed.follow({}, JSON_ONLY);
    await followed('a');
    bed.server.eachWatch((watch) => {
      watch.raw('{"type":"DELETED","object":{"metadata":{"name":"a","name');
      watch.end();
    }, 'services');
    bed.server.apply(service('b', '10.96.0.2'));
    await followed('a b');
    expect(bed.view.types('service')).toEqual(['replaced', 'applied']);
  });

  test('events that arrive byte by byte, with multi-byte characters', async () => {
    await serverWith({});
    bed.server.faults.add({
      verb: 'watch',
      resource: 'services',
      times: 5,
      fault: { type: 'slow', bytes: 1, pauseMs: 0 },
    });
    const odd = service('a', '10.96.0.1');
    bed.server.apply({ ...odd, spec: { ...(odd['spec'] as object), type: 'Bäume-🌲-木' } });
    bed.follow({ listIdleMs: 2_000 });
    await followed('a');
    const [first] = bed.view.events.filter((event) => event.kind === 'service');
    expect(first).toMatchObject({ event: { objects: [{ type: 'Bäume-🌲-木' }] } });
  });

  test('an event of megabytes', async () => {
    await serverWith({});
    bed.follow({ maxLineBytes: 4 * 1024 * 1024 });
    await followed('');
    bed.server.apply(service('a', '10.96.0.1', { annotations: { note: 'x'.repeat(3 * 1024 * 1024) } }));
    await followed('a');
    expect(bed.log.lines).toEqual([]);
  });

  test('a line without an end ends the watch', async () => {
    await serverWith({});
    bed.follow({ maxLineBytes: 1024 * 1024 }, JSON_ONLY);
    await followed('');
    bed.server.eachWatch((watch) => watch.raw('x'.repeat(2 * 1024 * 1024)), 'services');
    bed.server.apply(service('a', '10.96.0.1'));
    await followed('a');
    expect(bed.log.messages('warn').join()).toMatch(/more than 1048576 bytes/);
  });

  test('a watch that is silent after a bookmark is restarted', async () => {
    await serverWith({ bookmarkMs: 20 }, 'a');
    bed.follow({ silenceMs: 120 });
    await followed('a');
    await sleep(200);
    // The bookmarks keep the watch open.
    expect(requestsOf('watch')).toHaveLength(1);
    bed.server.eachWatch((watch) => watch.silence());
    bed.server.apply(service('b', '10.96.0.2'));
    await eventually(() => expect(bed.view.names('service')).toBe('a b'));
    expect(bed.view.types('service')).toEqual(['replaced', 'applied']);
  });

  test('a watch that exceeds its timeout is restarted', async () => {
    await serverWith({ watchList: false }, 'a');
    bed.follow({ watchSeconds: [1, 1], graceMs: 30 });
    await followed('a');
    bed.server.eachWatch((watch) => watch.silence());
    bed.server.apply(service('b', '10.96.0.2'));
    await eventually(() => expect(bed.view.names('service')).toBe('a b'));
  });

  test('a server that always says "expired" is requested with back-off', async () => {
    await serverWith({ watchList: false }, 'a');
    bed.server.faults.add({ verb: 'watch', resource: 'services', times: 1000, fault: { type: 'status', code: 410 } });
    const started = performance.now();
    bed.follow({ backoff: { firstMs: 40, maxMs: 80 }, random: () => 1 });
    await eventually(() => expect(requestsOf('watch').length).toBeGreaterThan(5));
    // The first retry is immediate, because a new list usually resolves the expiry.
    expect(requestsOf('watch').length).toBeLessThan(3 + (performance.now() - started) / 40);
  });

  test('an error event other than expiry: the watch is resumed without a list', async () => {
    await serverWith({}, 'a');
    bed.follow();
    await followed('a');
    bed.server.eachWatch((watch) => {
      watch.error(new StatusError(500, 'InternalError', 'etcd is away'));
      watch.end();
    }, 'services');
    bed.server.apply(service('b', '10.96.0.2'));
    await followed('a b');
    expect(bed.view.types('service')).toEqual(['replaced', 'applied']);
  });

  test('after stop() no event is emitted and no connection stays open', async () => {
    await serverWith({}, 'a');
    bed.follow();
    await followed('a');
    await bed.source?.stop();
    const count = bed.view.events.length;
    bed.server.apply(service('b', '10.96.0.2'));
    await eventually(() => expect(bed.server.watches.size).toBe(0));
    expect(bed.view.events).toHaveLength(count);
  });
});
