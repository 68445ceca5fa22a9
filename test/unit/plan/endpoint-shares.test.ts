import { expect, test } from '@jest/globals';
import { withShares } from '../../../src/plan/service/endpoint-shares.ts';
import type { PlannedVirtualServer, ServicePlan } from '../../../src/plan/service-plan.ts';
import { FORWARDING, type RealServer, realServerKey } from '../../../src/state/real-server.ts';
import { real, vsId } from '../../support/state.ts';

const SERVERS = [1, 2, 3, 4].map((at) => real(`10.1.0.${at}`, 1));

/** The weights of the first `all` endpoints of a virtual server, of which the first `silent` are silent. */
function weights(silent: number, all: number, change: Partial<RealServer> = {}, protocol: 'TCP' | 'UDP' = 'TCP') {
  const realServers = SERVERS.slice(0, all).map((server) => ({ ...server, ...change }));
  const planned = {
    virtualServer: { ...vsId('10.96.0.1', 80), protocol },
    realServers,
  } as unknown as PlannedVirtualServer;
  const plan = { virtualServers: [planned] } as unknown as ServicePlan;
  const after = withShares(plan, new Map(SERVERS.slice(0, silent).map((server) => [realServerKey(server), 0])));
  return after.virtualServers[0]?.realServers.map(({ weight }) => weight);
}

test.each([
  ['the only endpoint is used', weights(1, 1), [1]],
  ['half of the endpoints', weights(2, 4), [0, 0, 1, 1]],
  ['one of two', weights(1, 2), [0, 1]],
  ['more than half of the endpoints: all are used', weights(3, 4), [1, 1, 1, 1]],
  ['two of three: all are used', weights(2, 3), [1, 1, 1]],
  ['other weights are kept', weights(1, 3, { weight: 7 }), [0, 7, 7]],
  ['endpoints of UDP are used', weights(1, 3, {}, 'UDP'), [1, 1, 1]],
  [
    'endpoints behind a tunnel are used: their answers do not pass this node',
    weights(1, 3, { forwarding: FORWARDING.tunnel }),
    [1, 1, 1],
  ],
])('silent: %s', (_what, found, wanted) => {
  expect(found).toEqual(wanted);
});

test('endpoints that the Service gave weight 0 do not count', () => {
  const realServers = [{ ...SERVERS[0]!, weight: 0 }, ...SERVERS.slice(1, 3)];
  const planned = { virtualServer: vsId('10.96.0.1', 80), realServers } as unknown as PlannedVirtualServer;
  const plan = { virtualServers: [planned] } as unknown as ServicePlan;
  const after = withShares(plan, new Map(SERVERS.slice(0, 2).map((server) => [realServerKey(server), 0])));
  expect(after.virtualServers[0]?.realServers.map(({ weight }) => weight)).toEqual([0, 0, 1]);
});

test.each([
  ['wrr', 8, 2],
  ['wlc', 1, 1],
  ['rr', 8, 8],
  ['mh', 8, 8],
])('with scheduler %s, an endpoint of weight %d that answers again begins with %d', (scheduler, weight, wanted) => {
  const realServers = SERVERS.slice(0, 2).map((server) => ({ ...server, weight }));
  const virtualServer = { ...vsId('10.96.0.1', 80), scheduler };
  const plan = { virtualServers: [{ virtualServer, realServers }] } as unknown as ServicePlan;
  const after = withShares(plan, new Map([[realServerKey(realServers[0]!), 0.25]])).virtualServers[0];
  expect(after?.realServers.map((server) => server.weight)).toEqual([wanted, weight]);
  expect(after === plan.virtualServers[0]).toBe(wanted === weight);
});
