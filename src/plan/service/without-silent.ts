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

/** Returns the plan with weight 0 for silent endpoints. A virtual server of which more than half are silent keeps all. */
export function withoutSilent(plan: ServicePlan, silent: ReadonlySet<RealServerKey>): ServicePlan {
  if (silent.size === 0) return plan;
  return { ...plan, virtualServers: plan.virtualServers.map((planned) => spared(planned, silent)) };
}

function spared(planned: PlannedVirtualServer, silent: ReadonlySet<RealServerKey>): PlannedVirtualServer {
  if (!isCheckable(planned)) return planned;
  const used = planned.realServers.filter(({ weight }) => weight > 0);
  const isSilent = (server: RealServer): boolean => silent.has(realServerKey(server));
  const count = used.filter(isSilent).length;
  if (count === 0 || count * 2 > used.length) return planned;
  const realServers = planned.realServers.map((server) => (isSilent(server) ? { ...server, weight: 0 } : server));
  return { ...planned, realServers };
}
