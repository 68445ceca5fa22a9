import {
  FORWARDING,
  type RealServer,
  type RealServerKey,
  forwardingOf,
  realServerKey,
} from '../../state/real-server.ts';
import type { PlannedVirtualServer, ServicePlan } from '../service-plan.ts';

/** Whether the endpoints of a virtual server can be checked: answers of others than NAT do not pass this node. */
export function isCheckable({ virtualServer: { protocol }, realServers }: PlannedVirtualServer): boolean {
  return protocol === 'TCP' && realServers.every((server) => forwardingOf(server) === FORWARDING.nat);
}

/** Schedulers to which a lower weight means fewer connections. Those that hash would send clients elsewhere. */
const WEIGHTED: ReadonlySet<string> = new Set(['wrr', 'wlc', 'sed', 'nq', 'lblc', 'lblcr']);

/**
 * Returns the plan in which endpoints get a part of their weight: silent ones get none. A virtual server of which more than
 * half are silent keeps all.
 */
export function withShares(plan: ServicePlan, shares: ReadonlyMap<RealServerKey, number>): ServicePlan {
  if (shares.size === 0) return plan;
  return { ...plan, virtualServers: plan.virtualServers.map((planned) => shared(planned, shares)) };
}

function shared(planned: PlannedVirtualServer, shares: ReadonlyMap<RealServerKey, number>): PlannedVirtualServer {
  if (!isCheckable(planned)) return planned;
  const used = planned.realServers.filter(({ weight }) => weight > 0);
  const shareOf = (server: RealServer): number => shares.get(realServerKey(server)) ?? 1;
  const silent = used.filter((server) => shareOf(server) === 0).length;
  const isWeighted = WEIGHTED.has(planned.virtualServer.scheduler);
  const realServers = planned.realServers.map((server) => {
    const share = shareOf(server);
    const isWhole = share === 0 ? silent * 2 > used.length : !isWeighted;
    const weight = isWhole ? server.weight : Math.ceil(server.weight * share);
    return weight === server.weight ? server : { ...server, weight };
  });
  return realServers.every((server, at) => server === planned.realServers[at]) ? planned : { ...planned, realServers };
}
