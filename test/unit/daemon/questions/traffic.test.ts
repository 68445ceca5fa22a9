import { expect, test } from '@jest/globals';
import type { TrafficReply } from '../../../../src/explain/replies.ts';
import { FakeKernel } from '../../../fake-kernel/fake-kernel.ts';
import { virtualServer } from '../../../contract/objects.ts';
import { listed, service, slice } from '../../../support/objects.ts';
import { questionsOf } from '../../../support/questions.ts';
import { Reconciling } from '../../../support/reconciling.ts';
import { real, vsId } from '../../../support/state.ts';

const CLUSTER_IP = vsId('10.96.0.10', 80);
const EXTERNAL = vsId('203.0.113.1', 80);
const FOREIGN = vsId('192.0.2.9', 53);
const ONE = real('10.244.0.5', 1);
const TWO = real('10.244.0.6', 1);

async function started() {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const run = new Reconciling(kernel);
  const web = service('web', '10.96.0.10', { externalIPs: ['203.0.113.1'] });
  await run.take(...listed([web], [slice('web', ['10.244.0.5', '10.244.0.6'])]));
  kernel.put({ kind: 'add-virtual-server', virtualServer: virtualServer(FOREIGN.address, FOREIGN.port) });
  kernel.setStats(CLUSTER_IP, { connections: 3, incomingPackets: 30 });
  kernel.setStats(EXTERNAL, { connections: 2, incomingPackets: 20, outgoingBytes: 5 });
  kernel.setStats(FOREIGN, { connections: 1 });
  kernel.setRealServerStats(CLUSTER_IP, ONE, { connections: 2, incomingPackets: 7 });
  kernel.setRealServerStats(EXTERNAL, ONE, { connections: 1, incomingPackets: 1 });
  kernel.setRealServerStats(EXTERNAL, TWO, { outgoingBytes: 5 });
  kernel.setObserved(CLUSTER_IP, ONE, { activeConnections: 4, inactiveConnections: 1 });
  kernel.setObserved(EXTERNAL, TWO, { activeConnections: 2 });
  return { kernel, run, ...questionsOf(kernel, run) };
}

const NONE = { connections: 0, incomingPackets: 0, outgoingPackets: 0, incomingBytes: 0, outgoingBytes: 0 };

test('by Service: its virtual servers summed; a virtual server of nobody has its address', async () => {
  const { ask, run } = await started();
  const reply = (await ask('/v1/traffic?by=service')) as TrafficReply;
  expect(reply).toMatchObject({ kind: 'Traffic', ok: true, by: 'service', readAtSeconds: run.clock.now() / 1000 });
  expect(reply.rows).toEqual([
    {
      ...NONE,
      of: 'default/web',
      activeConnections: 6,
      inactiveConnections: 1,
      connections: 5,
      incomingPackets: 50,
      outgoingBytes: 5,
    },
    { ...NONE, of: '192.0.2.9:53/TCP', activeConnections: 0, inactiveConnections: 0, connections: 1 },
  ]);
});

test('by endpoint: its real servers summed', async () => {
  const { ask } = await started();
  const { rows } = (await ask('/v1/traffic?by=endpoint')) as TrafficReply;
  const of = 'default/web';
  expect(rows.toSorted((a, b) => b.connections - a.connections)).toEqual([
    {
      ...NONE,
      of,
      endpoint: '10.244.0.5:8080/TCP',
      activeConnections: 4,
      inactiveConnections: 1,
      connections: 3,
      incomingPackets: 8,
    },
    { ...NONE, of, endpoint: '10.244.0.6:8080/TCP', activeConnections: 2, inactiveConnections: 0, outgoingBytes: 5 },
  ]);
});

test('a question without a subject is refused', async () => {
  const { ask } = await started();
  await expect(ask('/v1/traffic?by=pod')).rejects.toThrow('by: want service or endpoint');
  await expect(ask('/v1/traffic')).rejects.toThrow('the question has no by');
});

test('without a question, the daemon reads no counter', async () => {
  const { kernel, run } = await started();
  await run.pass(30_000);
  expect(kernel.calls.get('getVirtualServerStats')).toBeUndefined();
  expect(kernel.calls.get('getRealServerStats')).toBeUndefined();
});
