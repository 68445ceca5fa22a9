import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { ApiClient } from '../../src/kube/api/api-client.ts';
import { ApiSource } from '../../src/kube/api/api-source.ts';
import { readText } from '../../src/kube/api/stream-guard.ts';
import { ProxyMetrics } from '../../src/observe/proxy-metrics.ts';
import { ApiServer } from '../apiserver/api-server.ts';
import { RecordingLog } from '../unit/kube/recording-log.ts';
import { FAST, node, service, slice } from './harness.ts';
import { exposed } from '../support/exposed.ts';

const SERVICES = '/api/v1/services';

describe('metrics of the API client', () => {
  let server: ApiServer;
  let metrics: ProxyMetrics;
  let text: string;

  beforeEach(async () => {
    server = new ApiServer();
    await server.start();
    metrics = new ProxyMetrics();
  });

  afterEach(() => server.stop());

  function makeClient(rateLimit = { qps: 1_000, burst: 1_000 }): ApiClient {
    const access = { kubeconfig: '', master: server.url, userAgent: 'test' };
    const created = ApiClient.create({ ...access, observer: metrics, rateLimit });
    if (!created.ok) throw new Error(created.error);
    return created.client;
  }

  async function get(client: ApiClient, path = SERVICES): Promise<string> {
    const { signal } = new AbortController();
    const reply = await client.request({ method: 'GET', path, signal });
    return reply.ok ? await readText(reply.body, 1_000) : reply.message;
  }

  async function scrape(): Promise<void> {
    text = await exposed(metrics);
  }

  /** Returns the value of a series in the last scrape; the labels may be in any order. */
  function value(name: string, labels: Readonly<Record<string, string>>): number {
    const line = text.split('\n').find((one) => {
      const [series = ''] = one.split(' ');
      return series.startsWith(`${name}{`) && Object.entries(labels).every(([k, v]) => series.includes(`${k}="${v}"`));
    });
    return Number(line?.split(' ').at(-1) ?? NaN);
  }

  test('requests are counted by code, with durations and exact body sizes', async () => {
    for (let i = 0; i < 20; i++) server.apply(service(`s${i}`, `10.96.0.${i}`));
    const client = makeClient();
    const body = await get(client);
    await get(client, '/api/v1/nothing');
    const posted = JSON.stringify({ ...node('posted'), status: {} });
    const reply = await client.request({
      method: 'POST',
      path: '/api/v1/nodes',
      signal: new AbortController().signal,
      body: { type: 'application/json', text: posted },
    });
    const answer = reply.ok ? await readText(reply.body, 1_000) : '';
    client.close();
    await scrape();
    const { host } = new URL(server.url);
    expect(value('rest_client_requests_total', { code: '200', method: 'GET', host })).toBe(1);
    expect(value('rest_client_requests_total', { code: '404', method: 'GET', host })).toBe(1);
    expect(value('rest_client_requests_total', { code: '201', method: 'POST', host })).toBe(1);
    expect(value('rest_client_request_duration_seconds_count', { verb: 'GET', host })).toBe(2);
    expect(value('rest_client_request_size_bytes_sum', { verb: 'POST', host })).toBe(posted.length);
    expect(value('rest_client_request_size_bytes_count', { verb: 'GET', host })).toBeNaN();
    expect(value('rest_client_response_size_bytes_count', { verb: 'GET', host })).toBe(2);
    expect(value('rest_client_response_size_bytes_sum', { verb: 'POST', host })).toBe(answer.length);
    expect(value('rest_client_response_size_bytes_bucket', { verb: 'GET', le: '65536' })).toBe(2);
    expect(value('rest_client_response_size_bytes_sum', { verb: 'GET', host })).toBeGreaterThanOrEqual(body.length);
  });

  test('a request without a response counts as code <error>', async () => {
    const client = makeClient();
    server.faults.add({ resource: 'services', fault: { type: 'drop' } });
    await get(client);
    client.close();
    await scrape();
    expect(value('rest_client_requests_total', { code: '<error>', method: 'GET' })).toBe(1);
    expect(value('rest_client_request_retries_total', { verb: 'GET' })).toBeNaN();
  });

  test('a connection that was closed while it was idle is a retry, not an error', async () => {
    const client = makeClient();
    await get(client);
    // Drop the request on the reused connection.
    server.faults.add({ resource: 'services', fault: { type: 'drop' } });
    expect(await get(client)).toContain('ServiceList');
    client.close();
    await scrape();
    expect(value('rest_client_request_retries_total', { code: '<error>', verb: 'GET' })).toBe(1);
    expect(value('rest_client_requests_total', { code: '200', method: 'GET' })).toBe(2);
    expect(value('rest_client_requests_total', { code: '<error>', method: 'GET' })).toBeNaN();
  });

  test('requests beyond the burst wait for their turn, and the wait is counted; watches do not wait', async () => {
    const client = makeClient({ qps: 20, burst: 2 });
    const started = performance.now();
    await Promise.all([0, 1, 2, 3, 4].map(() => get(client)));
    const took = performance.now() - started;
    expect(took).toBeGreaterThanOrEqual(145);
    const abort = new AbortController();
    const watch = { method: 'GET', path: `${SERVICES}?watch=true`, signal: abort.signal, isWatch: true } as const;
    const reply = await client.request(watch);
    expect(reply.ok).toBe(true);
    if (reply.ok) reply.body.on('error', () => undefined);
    abort.abort();
    client.close();
    await scrape();
    // The watch is not counted.
    expect(value('rest_client_rate_limiter_duration_seconds_count', { verb: 'GET' })).toBe(5);
    expect(value('rest_client_rate_limiter_duration_seconds_bucket', { le: '0.005' })).toBe(2);
    expect(value('rest_client_rate_limiter_duration_seconds_sum', { verb: 'GET' })).toBeCloseTo(0.3, 1);
  });

  test('a request that is cancelled while it waits is not sent', async () => {
    const client = makeClient({ qps: 0.001, burst: 1 });
    await get(client);
    const abort = new AbortController();
    const waiting = client.request({ method: 'GET', path: SERVICES, signal: abort.signal });
    abort.abort();
    expect(await waiting).toMatchObject({ ok: false });
    client.close();
    expect(server.requests).toHaveLength(1);
  });

  test('the state of each watch, and the reasons of its restarts', async () => {
    server.apply(node('node-1'));
    server.apply(service('web', '10.96.0.1'));
    server.apply(slice('web', ['10.244.0.1']));
    const client = makeClient();
    const options = { client, nodeName: 'node-1', log: new RecordingLog(), observer: metrics };
    const source = new ApiSource({ ...options, timing: { ...FAST, backoff: { firstMs: 200, maxMs: 400 } } });
    source.start(() => undefined);
    const state = (resource: string): readonly number[] =>
      ['listing', 'watching', 'waiting'].map((name) => value('kubeipvs_watch_state', { resource, state: name }));
    /** Scrapes until the check passes: the client notices changes later than the server makes them. */
    const scraped = async (check: () => void): Promise<void> => {
      for (let i = 0; i < 1_000; i++) {
        await scrape();
        try {
          return check();
        } catch {
          await sleep(5);
        }
      }
      check();
    };
    const RESTARTS = 'kubeipvs_watch_restarts_total';
    await scraped(() => {
      for (const resource of ['services', 'endpointslices', 'nodes']) expect(state(resource)).toEqual([0, 1, 0]);
    });
    expect(value(RESTARTS, { resource: 'services', reason: 'ended' })).toBe(0);
    server.auth.deny('watch', 'services');
    server.dropConnections();
    await scraped(() => {
      expect(state('services')).toEqual([0, 0, 1]);
      expect(value(RESTARTS, { resource: 'services', reason: 'forbidden' })).toBeGreaterThan(0);
    });
    server.auth.allow('watch', 'services');
    await scraped(() => expect(state('services')).toEqual([0, 1, 0]));
    expect(value(RESTARTS, { resource: 'nodes', reason: 'unavailable' })).toBeGreaterThan(0);
    await source.stop();
    client.close();
  });
});
