import { expect, test } from '@jest/globals';
import type { Service } from '../../../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../../../src/kube/objects/source.ts';
import { FakeNftTable } from '../../../fake-kernel/fake-nft-table.ts';
import { nftablesPlane } from '../../../fake-kernel/planes.ts';
import { startOn } from '../../../support/on-plane.ts';
import { endpoint, listed, port, service, slice } from '../../../support/objects.ts';

const SHARED_IP = { type: 'LoadBalancer' as const, loadBalancerIngress: [{ ip: '203.0.113.1' }] };
/** Its load balancer IP lends its list to its node port: that of its cluster IP has local endpoints only. */
const LENDER = service('web', '10.96.0.12', {
  ...SHARED_IP,
  internalTrafficPolicy: 'Local',
  ports: [port(443, { nodePort: 30_021 })],
});
/** "a" comes before "web", so the load balancer IP is its own. */
const WINNER = service('a', '10.96.0.11', { ...SHARED_IP, ports: [port(443)] });
const ENDPOINTS = slice('web', ['10.244.3.6', endpoint('10.244.0.6', { nodeName: 'node-a' })]);

const applied = (object: Service): SourceEvent => ({ kind: 'service', event: { type: 'applied', object } });
const EVENTS = {
  endpoints: { kind: 'endpoint-slice', event: { type: 'applied', object: ENDPOINTS } },
  winner: applied(WINNER),
} as const satisfies Record<string, SourceEvent>;

test.each([
  ['before it has endpoints', ['winner', 'endpoints']],
  ['afterwards', ['endpoints', 'winner']],
] as const)('a load balancer IP that a Service loses %s lends nothing to its node port', async (_when, order) => {
  const { run } = await startOn(nftablesPlane(new FakeNftTable()));
  const difference = async () => (await run.reconciler.answers.difference(new AbortController().signal)).ops;
  await run.settle(...listed([LENDER], []));
  for (const name of order) {
    expect(await run.settle(EVENTS[name])).toMatchObject({ ok: true, failures: [] });
    expect(await difference()).toEqual([]);
  }
  const ofNode = [...run.reconciler.plan.virtualServers()].filter(({ traits }) => traits.kind === 'nodePort');
  expect(ofNode.map(({ virtualServer, realServers }) => [virtualServer.list?.port, realServers.length])).toEqual([
    [30_021, 2],
    [30_021, 2],
  ]);

  const deletion: SourceEvent = {
    kind: 'service',
    event: { type: 'deleted', object: { namespace: 'default', name: 'a' } },
  };
  expect(await run.settle(deletion)).toMatchObject({ ok: true, failures: [] });
  expect(await difference()).toEqual([]);
  const lists = [...run.reconciler.plan.virtualServers()].flatMap(({ traits, virtualServer: { list } }) =>
    traits.kind === 'cluster' ? [] : [list?.port],
  );
  expect(lists).toEqual([443, 443, 443]);
  await run.reconciler.stop();
});
