import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { ApiClient } from '../../src/kube/api/api-client.ts';
import { ApiSource } from '../../src/kube/api/api-source.ts';
import { ApiServer } from '../apiserver/api-server.ts';
import { eventually } from '../unit/kube/eventually.ts';
import { RecordingLog } from '../unit/kube/recording-log.ts';

let servers: readonly ApiServer[];
let urls: readonly string[];

beforeEach(async () => {
  servers = [new ApiServer(), new ApiServer()];
  urls = await Promise.all(servers.map((server) => server.start()));
});

afterEach(async () => {
  await Promise.all(servers.map((server) => server.stop()));
});

function clientOf(master: string, changes: string[] = []): ApiClient {
  const created = ApiClient.create({
    kubeconfig: '',
    master,
    userAgent: 'test',
    onServerChange: ({ from, to }) => changes.push(`${from} ${to}`),
  });
  if (!created.ok) throw new Error(created.error);
  return created.client;
}

async function ask(client: ApiClient): Promise<boolean> {
  const reply = await client.request({ method: 'GET', path: '/version', signal: AbortSignal.timeout(10_000) });
  if (reply.ok) reply.body.resume();
  return reply.ok;
}

test('an address that is not reached is passed over, and the next one is kept until it fails, too', async () => {
  const [first = '', second = ''] = urls;
  const changes: string[] = [];
  const client = clientOf(urls.join(','), changes);
  expect(client.servers).toBe(`${first}, ${second}`);
  expect([await ask(client), client.server]).toEqual([true, first]);
  await servers[0]?.stop();
  // Requests at the same time move on once.
  expect(await Promise.all([ask(client), ask(client), ask(client)])).toEqual([true, true, true]);
  expect([client.server, changes]).toEqual([second, [`${first} ${second}`]]);
  const failed = { at: expect.any(Number), reason: expect.stringMatching(/ECONNREFUSED|closed the connection/) };
  expect(client.serverStates()).toEqual([
    { server: first, inUse: false, answeredAt: expect.any(Number), failed },
    { server: second, inUse: true, answeredAt: expect.any(Number) },
  ]);
  await servers[1]?.stop();
  expect(await ask(client)).toBe(false);
  expect(client.serverStates()[1]).toMatchObject({ server: second, failed });
  client.close();
});

test('watches go on at another address', async () => {
  const client = clientOf(urls.join(', '));
  const source = new ApiSource({ client, nodeName: 'node-1', log: new RecordingLog() });
  source.start(() => undefined);
  await eventually(() => expect(servers[0]?.watches.size).toBe(3));
  await servers[0]?.stop();
  await eventually(() => expect(servers[1]?.watches.size).toBe(3));
  await source.stop();
  client.close();
});

test('each address must be valid', () => {
  const created = ApiClient.create({ kubeconfig: '', master: `${urls[0]},ftp://x`, userAgent: 'test' });
  expect(created).toMatchObject({ ok: false, error: expect.stringContaining('"ftp://x" is not a valid') });
});
