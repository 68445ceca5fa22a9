import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { DaemonEvents } from '../../src/daemon/daemon-events.ts';
import { ApiClient } from '../../src/kube/api-client.ts';
import { EventPoster } from '../../src/kube/event-poster.ts';
import { namespacedName } from '../../src/net/names.ts';
import { SYSTEM_CLOCK } from '../../src/reconcile/clock.ts';
import { ApiServer } from '../apiserver/api-server.ts';
import type { JsonObject } from '../apiserver/json-object.ts';
import { eventually } from '../unit/kube/eventually.ts';
import { RecordingLog } from '../unit/kube/recording-log.ts';
import { service } from './harness.ts';

/** The verbs that system:node-proxier has. */
const FORBIDDEN = ['get events', 'list events', 'delete events', 'get services', 'get nodes', 'get endpointslices'];

describe('events in the API', () => {
  let server: ApiServer;
  let client: ApiClient;
  let log: RecordingLog;

  beforeEach(async () => {
    server = new ApiServer();
    await server.start();
    for (const rule of FORBIDDEN) server.auth.deny(...(rule.split(' ') as [string, string]));
    client = makeClient(server.url);
    log = new RecordingLog();
  });

  afterEach(async () => {
    client.close();
    await server.stop();
  });

  function makeClient(master: string): ApiClient {
    const created = ApiClient.create({ kubeconfig: '', master, userAgent: 'test' });
    if (!created.ok) throw new Error(created.error);
    return created.client;
  }

  function recorder(nodeName = 'node-a', through = client): DaemonEvents {
    return new DaemonEvents(nodeName, new EventPoster({ client: through, nodeName, idleMs: 500 }), SYSTEM_CLOCK, log);
  }

  const events = (): readonly JsonObject[] => server.objects('events', 'events.k8s.io/v1');

  test('Starting is about the Node, in namespace default, as kube-proxy writes it', async () => {
    const before = Date.now();
    const recorded = recorder();
    recorded.started();
    await recorded.close();
    expect(events()).toEqual([
      expect.objectContaining({
        apiVersion: 'events.k8s.io/v1',
        kind: 'Event',
        metadata: expect.objectContaining({ namespace: 'default', name: expect.stringMatching(/^node-a\./) }),
        eventTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
        reportingController: 'kube-proxy',
        reportingInstance: 'kube-proxy-node-a',
        type: 'Normal',
        reason: 'Starting',
        action: 'StartKubeProxy',
        regarding: { apiVersion: 'v1', kind: 'Node', name: 'node-a', uid: 'node-a' },
      }),
    ]);
    expect(Date.parse(String(events()[0]?.['eventTime']))).toBeGreaterThanOrEqual(before);
    expect(events()[0]).not.toHaveProperty('series');
  });

  test('those of a Service are in its namespace and carry its uid, without the right to get it', async () => {
    const { uid } = server.apply(service('web', '10.96.0.1', { namespace: 'shop' })).metadata;
    const recorded = recorder();
    recorded.serviceHealthRefused('shop', 'web', 'port 30000 is taken');
    recorded.serviceWarning(namespacedName('shop', 'web'), { reason: 'node-owns-address', message: 'it is ours' });
    await recorded.close();
    const regarding = { apiVersion: 'v1', kind: 'Service', namespace: 'shop', name: 'web', uid };
    expect(uid).toEqual(expect.any(String));
    // Both are written at once: which is first is the server's to say.
    const written = events().toSorted((a, b) => String(a['reason']).localeCompare(String(b['reason'])));
    expect(written).toEqual([
      expect.objectContaining({
        reason: 'FailedToStartServiceHealthcheck',
        action: 'Listen',
        type: 'Warning',
        regarding,
      }),
      expect.objectContaining({ reason: 'NodeOwnsAddress', type: 'Warning', note: 'it is ours', regarding }),
    ]);
    expect(events().map(({ metadata }) => metadata.namespace)).toEqual(['shop', 'shop']);
  });

  test('what every node says of a Service is one Event, though all of them write it', async () => {
    server.apply(service('web', '10.96.0.1'));
    for (const name of ['node-a', 'node-b', 'node-c']) {
      const recorded = recorder(name);
      recorded.serviceWarning(namespacedName('default', 'web'), { reason: 'invalid-address', message: '"x" is none' });
      await recorded.close();
    }
    expect(events().map((event) => event['reason'])).toEqual(['InvalidAddress']);
    expect(server.requests.filter(({ verb }) => verb === 'create').map(({ code }) => code)).toEqual([201, 409, 409]);
    expect(log.lines).toEqual([]);
  });

  test('a series is patched: count, last time and note', async () => {
    const poster = new EventPoster({ client, nodeName: 'node-a' });
    const { signal } = new AbortController();
    const event = {
      name: 'web.1',
      subject: { kind: 'Service', namespace: 'default', name: 'web' },
      text: { type: 'Warning', reason: 'Some', action: 'Do', note: 'first' },
      firstAt: 1_000,
      lastAt: 1_000,
      count: 1,
    } as const;
    expect(await poster.create(event, signal)).toEqual({ result: 'done' });
    const again = { ...event, count: 7, lastAt: 61_001, text: { ...event.text, note: 'n'.repeat(3_000) } };
    expect(await poster.update(again, signal)).toEqual({ result: 'done' });
    expect(events()[0]).toMatchObject({
      eventTime: '1970-01-01T00:00:01.000000Z',
      series: { count: 7, lastObservedTime: '1970-01-01T00:01:01.001000Z' },
    });
    expect(events()[0]?.['note']).toHaveLength(1_021);
    expect(await poster.update({ ...again, name: 'web.2' }, signal)).toEqual({ result: 'gone' });
  });

  test.each([
    [401, 'later'],
    [429, 'later'],
    [500, 'later'],
    [503, 'later'],
    [403, 'never'],
    [422, 'never'],
  ])('an answer of %i: %s', async (code, result) => {
    const poster = new EventPoster({ client, nodeName: 'node-a' });
    server.faults.add({ verb: 'create', resource: 'events', fault: { type: 'status', code, message: 'because' } });
    const event = {
      name: 'node-a.1',
      subject: { kind: 'Node', namespace: '', name: 'node-a' },
      text: { type: 'Normal', reason: 'Starting', action: 'Start', note: '' },
      firstAt: 0,
      lastAt: 0,
      count: 1,
    } as const;
    const delivery = await poster.create(event, new AbortController().signal);
    expect(delivery).toEqual(
      result === 'later' ? { result } : { result, reason: `the API server answers ${code}: because` },
    );
  });

  test.each(['drop', 'stall'] as const)(
    'a server that takes the request and answers with a %s: it is not waited for',
    async (type) => {
      server.faults.add({ verb: 'create', resource: 'events', times: 100, fault: { type } });
      const recorded = recorder();
      recorded.started();
      await eventually(() => expect(server.requests.some(({ verb }) => verb === 'create')).toBe(true));
      const started = performance.now();
      await recorded.close();
      expect(performance.now() - started).toBeLessThan(3_000);
    },
  );

  test('an API server that is away costs nothing but the event', async () => {
    const away = makeClient('http://127.0.0.1:1');
    const recorded = recorder('node-a', away);
    const started = performance.now();
    for (let i = 0; i < 1_000; i++) recorded.serviceHealthRefused('default', `s${i}`, 'no');
    expect(performance.now() - started).toBeLessThan(1_000);
    await recorded.close();
    away.close();
    expect(events()).toEqual([]);
  });

  test('without an API (--manifests) nothing is recorded', async () => {
    const none = new DaemonEvents('node-a', undefined, SYSTEM_CLOCK, log);
    none.started();
    none.serverRefused('metrics server', 'taken');
    await none.close();
    expect(events()).toEqual([]);
  });

  test.each([
    ['health server', 'FailedToStartProxierHealthcheck'],
    ['metrics server', 'FailedToStartMetricServer'],
  ] as const)('a %s that cannot listen: %s', async (name, reason) => {
    const recorded = recorder();
    recorded.serverRefused(name, 'taken');
    await recorded.close();
    expect(events()).toEqual([
      expect.objectContaining({ type: 'Warning', reason, action: 'StartKubeProxy', note: 'taken' }),
    ]);
  });
});
