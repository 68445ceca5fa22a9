import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { DaemonEvents } from '../../src/daemon/run/daemon-events.ts';
import { ApiClient } from '../../src/kube/api/api-client.ts';
import { EventPoster } from '../../src/kube/api/event-poster.ts';
import { SYSTEM_CLOCK } from '../../src/reconcile/timing/clock.ts';
import { ApiServer } from '../apiserver/api-server.ts';
import type { JsonObject } from '../apiserver/json-object.ts';
import { eventually } from '../unit/kube/eventually.ts';
import { RecordingLog } from '../unit/kube/recording-log.ts';

describe('events and an API server with errors', () => {
  let server: ApiServer;
  let client: ApiClient;
  let log: RecordingLog;

  beforeEach(async () => {
    server = new ApiServer();
    await server.start();
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
    const sink = new EventPoster({ client: through, nodeName, bodyMs: 500 });
    return new DaemonEvents({ nodeName, sink, ofServices: true, clock: SYSTEM_CLOCK, log });
  }

  const events = (): readonly JsonObject[] => server.objects('events', 'events.k8s.io/v1');

  test.each([
    [401, 'later'],
    [429, 'later'],
    [500, 'later'],
    [503, 'later'],
    [403, 'never'],
    [422, 'never'],
  ])('a response of %i: %s', async (code, result) => {
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
      result === 'later' ? { result } : { result, reason: `the API server returned ${code}: because` },
    );
  });

  test.each(['drop', 'stall'] as const)(
    'a server that answers an Event with a %s does not delay the daemon',
    async (type) => {
      server.faults.add({ verb: 'create', resource: 'events', times: 100, fault: { type } });
      const recorded = recorder();
      recorded.started();
      await eventually(() => expect(server.requests.some(({ verb }) => verb === 'create')).toBe(true));
      const started = performance.now();
      await recorded.close();
      expect(performance.now() - started).toBeLessThan(10_000);
    },
  );

  test('an unreachable API server loses only the Event', async () => {
    const away = makeClient('http://127.0.0.1:1');
    const recorded = recorder('node-a', away);
    const started = performance.now();
    for (let i = 0; i < 1_000; i++) recorded.serviceHealthRefused('default', `s${i}`, 'no');
    expect(performance.now() - started).toBeLessThan(10_000);
    await recorded.close();
    away.close();
    expect(events()).toEqual([]);
  });

  test('without an API (--manifests) nothing is recorded', async () => {
    const none = new DaemonEvents({
      nodeName: 'node-a',
      sink: undefined,
      ofServices: true,
      clock: SYSTEM_CLOCK,
      log,
    });
    none.started();
    none.serverRefused('metrics server', 'taken');
    await none.close();
    expect(events()).toEqual([]);
  });
});
