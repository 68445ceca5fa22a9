import { expect, test } from '@jest/globals';
import type { SupportReply } from '../../../../src/explain/node/node-replies.ts';
import { FakeKernel } from '../../../fake-kernel/fake-kernel.ts';
import { listed, service, slice } from '../../../support/objects.ts';
import { questionsOf } from '../../../support/questions.ts';
import { Reconciling } from '../../../support/reconciling.ts';

test('what a support archive has of a node: settings, metrics, and what the kernel has', async () => {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const run = new Reconciling(kernel);
  await run.take(...listed([service('web', '10.96.0.10')], [slice('web', ['10.244.0.5', '10.244.0.6'])]));
  const reply = (await questionsOf(kernel, run).ask('/v1/support')) as SupportReply;
  expect(reply).toMatchObject({
    kind: 'Support',
    ok: true,
    metrics: 'kubeipvs_objects 1\n',
    configuration: { 'kubeproxy.config.k8s.io': { mode: 'ipvs' } },
    virtualServers: {
      count: 1,
      first: [
        {
          at: 'TCP 10.96.0.10:80',
          realServers: [
            { at: '10.244.0.5:8080', weight: 1, activeConnections: 0, inactiveConnections: 0 },
            { at: '10.244.0.6:8080', weight: 1, activeConnections: 0, inactiveConnections: 0 },
          ],
        },
      ],
    },
    addresses: ['10.96.0.10'],
  });
  expect(reply.flags).toContain('proxy-mode=ipvs');
  expect(reply.sets.find(({ name }) => name === 'KUBE-CLUSTER-IP')).toEqual({
    name: 'KUBE-CLUSTER-IP',
    count: 1,
    first: ['10.96.0.10,tcp:80'],
  });
});
