import { expect, test } from '@jest/globals';
import type { ServicesReply } from '../../../../src/explain/node/node-replies.ts';
import { FakeKernel } from '../../../fake-kernel/fake-kernel.ts';
import { listed, service, slice } from '../../../support/objects.ts';
import { questionsOf } from '../../../support/questions.ts';
import { Reconciling } from '../../../support/reconciling.ts';
import { real, vsId } from '../../../support/state.ts';

async function started() {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const run = new Reconciling(kernel);
  const web = service('web', '10.96.0.10');
  const taker = service('taker', '10.96.0.11', { externalIPs: ['10.96.0.10'] });
  const idle = service('idle', '10.96.0.12');
  await run.take(
    ...listed([web, taker, idle], [slice('web', ['10.244.0.5', '10.244.0.6']), slice('taker', ['10.244.0.7'])]),
  );
  kernel.setObserved(vsId('10.96.0.10', 80), real('10.244.0.5', 1), { activeConnections: 4, inactiveConnections: 1 });
  return questionsOf(kernel, run);
}

test('each Service with its endpoints and connections, those with problems first', async () => {
  const { ask } = await started();
  const { ok, verdict, rows } = (await ask('/v1/services')) as ServicesReply;
  expect({ ok, verdict }).toEqual({ ok: false, verdict: '3 Services on node node-a, 2 with problems' });
  expect(rows).toEqual([
    {
      service: 'default/idle',
      endpoints: 0,
      activeConnections: 0,
      inactiveConnections: 0,
      problems: ['no virtual server has an endpoint'],
    },
    {
      service: 'default/taker',
      endpoints: 1,
      activeConnections: 0,
      inactiveConnections: 0,
      problems: [expect.stringMatching(/10\.96\.0\.10:80.* belongs to default\/web$/)],
    },
    { service: 'default/web', endpoints: 2, activeConnections: 4, inactiveConnections: 1, problems: [] },
  ]);
});

test('of one namespace', async () => {
  const { ask } = await started();
  expect(((await ask('/v1/services?namespace=other')) as ServicesReply).rows).toEqual([]);
});
