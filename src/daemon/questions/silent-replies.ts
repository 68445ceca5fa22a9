import type { SilentEndpoint } from '../../endpoint-check/endpoint-check.ts';
import { trafficText } from '../../endpoint-check/endpoint-state.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import { formatRealServer, hasSameIdentity } from '../../state/real-server.ts';
import type { ServiceReply, SilentReply } from '../../explain/replies.ts';

/** Says since when an endpoint does not answer, why it counts as silent, and whether it gets new connections. */
export function silentReply(
  { service, endpoint, since, traffic }: SilentEndpoint,
  plan: Pick<NodePlan, 'service'>,
  now: number,
): SilentReply {
  const virtualServers = plan.service(service)?.virtualServers ?? [];
  const used = virtualServers.some(({ virtualServer: { protocol }, realServers }) =>
    realServers.some((server) => protocol === 'TCP' && server.weight > 0 && hasSameIdentity(server, endpoint)),
  );
  const sinceSeconds = Math.floor((now - since) / 1000);
  const counted = traffic.incomingPackets === 0 ? 'found so by an earlier run' : trafficText(traffic);
  const then = used ? 'it still gets new connections' : 'it gets no new connections';
  return {
    service,
    endpoint: formatRealServer(endpoint),
    sinceSeconds,
    used,
    why: `has not answered for ${sinceSeconds} s (${counted}); ${then}`,
  };
}

export function withSilent(
  reply: ServiceReply,
  silent: Iterable<SilentEndpoint> | undefined,
  plan: Pick<NodePlan, 'service'>,
  now: number,
): ServiceReply {
  const own = Array.from(silent ?? []).filter(({ service }) => service === reply.service);
  if (own.length === 0) return reply;
  const reasons = new Map(own.map((each) => [formatRealServer(each.endpoint), silentReply(each, plan, now).why]));
  const ports = reply.ports.map((port) => {
    if (port.protocol !== 'TCP') return port;
    const endpoints = port.endpoints.map((endpoint) => {
      const reason = endpoint.use === 'none' ? undefined : reasons.get(endpoint.at);
      if (reason === undefined) return endpoint;
      return { ...endpoint, why: endpoint.why === undefined ? reason : `${endpoint.why}; ${reason}` };
    });
    return { ...port, endpoints };
  });
  return { ...reply, ports };
}
