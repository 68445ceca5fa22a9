import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { DaemonEvents } from '../../src/daemon/run/daemon-events.ts';
import { ApiClient } from '../../src/kube/api/api-client.ts';
import { EventPoster } from '../../src/kube/api/event-poster.ts';
import { namespacedName } from '../../src/base/service/names.ts';
import type { CommonFault } from '../../src/explain/common-fault.ts';
import { recordOf } from '../../src/kube/objects/json.ts';
import { SYSTEM_CLOCK } from '../../src/reconcile/timing/clock.ts';
import type { JsonObject } from '../apiserver/json-object.ts';
import { RecordingLog } from '../unit/kube/recording-log.ts';
import { onEachApiServer } from './each-api-server.ts';
import { service } from './harness.ts';

jest.setTimeout(60_000);

/** Uses only the permissions of system:node-proxier. */
onEachApiServer((server) => {
  let client: ApiClient;
  let log: RecordingLog;
  /** Status codes of the responses to POST requests. */
  let posted: string[];

  beforeEach(async () => {
    log = new RecordingLog();
    posted = [];
    const observer = {
      apiRequestFinished: ({ method, code }: { readonly method: string; readonly code: string }): void => {
        if (method === 'POST') posted.push(code);
      },
      apiResponseRead: (): void => undefined,
      apiRequestRetried: (): void => undefined,
      apiRateLimiterWaited: (): void => undefined,
    };
    const kubeconfig = await server().kubeconfig('proxier');
    const created = ApiClient.create({ kubeconfig, master: '', userAgent: 'test', observer });
    if (!created.ok) throw new Error(created.error);
    client = created.client;
  });

  afterEach(() => client.close());

  function recorder(nodeName = 'node-a', ofServices = true): DaemonEvents {
    const sink = new EventPoster({ client, nodeName });
    return new DaemonEvents({ nodeName, sink, ofServices, clock: SYSTEM_CLOCK, log });
  }

  const events = (): Promise<readonly JsonObject[]> => server().list('events');

  test('Starting is about the Node, in namespace default, as kube-proxy writes it', async () => {
    const before = Date.now();
    const recorded = recorder();
    recorded.started();
    await recorded.close();
    const [event, ...more] = await events();
    expect(more).toEqual([]);
    expect(event).toMatchObject({
      metadata: { namespace: 'default', name: expect.stringMatching(/^node-a\./) },
      eventTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
      reportingController: 'kube-proxy',
      reportingInstance: 'kube-proxy-node-a',
      type: 'Normal',
      reason: 'Starting',
      action: 'StartKubeProxy',
      regarding: { apiVersion: 'v1', kind: 'Node', name: 'node-a', uid: 'node-a' },
    });
    expect(Date.parse(String(event?.['eventTime']))).toBeGreaterThanOrEqual(before);
    expect(event).not.toHaveProperty('series');
    expect(log.lines).toEqual([]);
  });

  test('Events of a Service are in its namespace and have its uid, without the verb get', async () => {
    const { uid } = (await server().apply(service('web', '10.96.2.1', { namespace: 'shop' }))).metadata;
    const recorded = recorder();
    recorded.serviceHealthRefused('shop', 'web', 'port 30000 is taken');
    recorded.serviceWarning(namespacedName('shop', 'web'), { reason: 'node-owns-address', message: 'it is ours' });
    await recorded.close();
    const regarding = { apiVersion: 'v1', kind: 'Service', namespace: 'shop', name: 'web', uid };
    expect(uid).toEqual(expect.any(String));
    // Both are written at the same time, so the server may store them in either order.
    const written = (await events()).toSorted((a, b) => String(a['reason']).localeCompare(String(b['reason'])));
    expect(written).toMatchObject([
      {
        metadata: { namespace: 'shop' },
        reason: 'FailedToStartServiceHealthcheck',
        action: 'Listen',
        type: 'Warning',
        regarding,
      },
      { metadata: { namespace: 'shop' }, reason: 'NodeOwnsAddress', type: 'Warning', note: 'it is ours', regarding },
    ]);
  });

  test('the same Event of a Service from all nodes is stored once', async () => {
    await server().apply(service('web', '10.96.2.2'));
    for (const name of ['node-a', 'node-b', 'node-c']) {
      const recorded = recorder(name);
      recorded.serviceWarning(namespacedName('default', 'web'), { reason: 'invalid-address', message: '"x" is none' });
      await recorded.close();
    }
    expect((await events()).map((event) => event['reason'])).toEqual(['InvalidAddress']);
    expect(posted).toEqual(['201', '409', '409']);
    expect(log.lines).toEqual([]);
  });

  test('a fault that all nodes find is stored once, also if their numbers differ; a new Service of that name gets its own', async () => {
    const web = namespacedName('default', 'web');
    const fault = (endpoints: number): CommonFault => ({
      reason: 'no-endpoint-used',
      message: `none of its ${endpoints} endpoints is used: its address is not valid`,
    });
    const uids: unknown[] = [];
    for (let life = 0; life < 2; life++) {
      const created = await server().apply(service('web', '10.96.2.4'));
      uids.push(created.metadata.uid);
      for (const name of ['node-a', 'node-b']) {
        const recorded = recorder(name);
        recorded.serviceFault(web, fault(uids.length + name.length));
        recorded.serviceFault(web, fault(7));
        await recorded.close();
      }
      await server().delete(created);
    }
    expect((await events()).map(({ reason, type, note }) => [reason, type, note])).toEqual([
      ['NoEndpointUsed', 'Warning', fault(7).message],
      ['NoEndpointUsed', 'Warning', fault(7).message],
    ]);
    expect((await events()).map((event) => recordOf(event['regarding'])['uid'])).toEqual(expect.arrayContaining(uids));
    expect(posted).toEqual(['201', '409', '201', '409']);
  });

  test('silent endpoints are one Event, whichever nodes find them; of those that answer again soon, there is none', async () => {
    const web = namespacedName('default', 'web');
    await server().apply(service('web', '10.96.2.6'));
    for (const [name, silent] of [
      ['node-a', 1],
      ['node-b', 2],
    ] as const) {
      const recorded = recorder(name);
      recorded.endpointsSilent(web, silent, 4);
      await recorded.close();
    }
    const brief = recorder('node-c');
    brief.endpointsSilent(namespacedName('default', 'api'), 1, 2);
    brief.endpointsSilent(namespacedName('default', 'api'), 0, 2);
    await brief.close();
    expect((await events()).map(({ reason, note }) => [reason, note])).toEqual([
      ['EndpointSilent', '1 of 4 endpoints answer neither a node nor its clients (endpoint-check)'],
    ]);
    expect(posted).toEqual(['201', '409']);
  });

  test('a fault that has ended, and any fault without --service-events, is not written', async () => {
    const web = namespacedName('default', 'web');
    const hints: CommonFault = { reason: 'hints-ignored', message: 'hints ignored: 1 of 2 ready endpoints have none' };
    await server().apply(service('web', '10.96.2.5'));
    const recorded = recorder();
    recorded.serviceFault(web, hints);
    recorded.serviceFault(web, undefined);
    await recorded.close();
    const silent = recorder('node-b', false);
    silent.serviceFault(web, hints);
    silent.serviceWarning(web, { reason: 'invalid-address', message: '"x" is none' });
    silent.serviceHealthRefused('default', 'web', 'port 30000 is taken');
    await silent.close();
    expect((await events()).map((event) => event['reason'])).toEqual(['FailedToStartServiceHealthcheck']);
  });

  test('a series is patched: only count and last time change', async () => {
    const poster = new EventPoster({ client, nodeName: 'node-a' });
    const { signal } = new AbortController();
    const event = {
      name: 'web.1',
      subject: { kind: 'Service', namespace: 'default', name: 'web' },
      text: { type: 'Warning', reason: 'Some', action: 'Do', note: 'n'.repeat(3_000) },
      firstAt: 1_000,
      lastAt: 1_000,
      count: 1,
    } as const;
    expect(await poster.create(event, signal)).toEqual({ result: 'done' });
    const again = { ...event, count: 7, lastAt: 61_001, text: { ...event.text, note: 'another' } };
    expect(await poster.update(again, signal)).toEqual({ result: 'done' });
    const [written] = await events();
    expect(written).toMatchObject({
      eventTime: '1970-01-01T00:00:01.000000Z',
      series: { count: 7, lastObservedTime: '1970-01-01T00:01:01.001000Z' },
    });
    expect(written?.['note']).toMatch(/^n{1021}$/);
    expect(await poster.update({ ...again, name: 'web.2' }, signal)).toEqual({ result: 'gone' });
  });

  test('a series that could not be written during an outage of the API is created as one', async () => {
    const poster = new EventPoster({ client, nodeName: 'node-a' });
    const subject = { kind: 'Node', namespace: '', name: 'node-a' } as const;
    const text = { type: 'Warning', reason: 'Some', action: 'Do', note: '' } as const;
    const event = { name: 'node-a.1', subject, text, firstAt: 1_000, lastAt: 2_000, count: 3 };
    expect(await poster.create(event, new AbortController().signal)).toEqual({ result: 'done' });
    expect(await events()).toMatchObject([{ series: { count: 3 } }]);
  });

  test.each([
    ['health server', 'FailedToStartProxierHealthcheck'],
    ['metrics server', 'FailedToStartMetricServer'],
  ] as const)('a %s that cannot listen: %s', async (name, reason) => {
    const recorded = recorder();
    recorded.serverRefused(name, 'taken');
    await recorded.close();
    expect(await events()).toMatchObject([{ type: 'Warning', reason, action: 'StartKubeProxy', note: 'taken' }]);
  });

  test('a setting below /sys that could not be written, as older releases of kube-proxy tell it', async () => {
    const recorded = recorder();
    recorded.sysReadOnly('EROFS');
    await recorded.close();
    expect(await events()).toMatchObject([
      {
        type: 'Warning',
        reason: 'readOnlySysFS',
        action: 'StartKubeProxy',
        note: 'EROFS',
        regarding: { kind: 'Node' },
      },
    ]);
  });
});
