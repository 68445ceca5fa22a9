import { FORWARDING, type RealServer, TUNNEL_CHECKSUM, TUNNEL_TYPE } from '../../state/real-server.ts';
import type { DirectForwarding } from '../../base/service/service-requests.ts';
import type { FamilyView, PortView } from '../family-view.ts';
import type { PlanDraft } from '../plan-draft.ts';
import type { PlanWarning } from '../service-plan.ts';

/** The reason of the warning about a port that gets NAT, although the Service asks for another method. */
export const FORWARDING_NOT_POSSIBLE = 'forwarding-not-possible';

/** The real servers of a port at external and load balancer IPs. */
export interface ExternalServers {
  readonly realServers: readonly RealServer[];
  /** Whether answers go to the client without passing this node, so that packets must keep their source address. */
  readonly direct: boolean;
}

/**
 * Applies the forwarding method that the Service asks for. A port that cannot be forwarded that way gets NAT and a
 * warning. Direct routing reaches only Pods of this node: another node would not pass the packet on to the Pod, but
 * handle it as its own service traffic. With policy Local and no endpoint here, the endpoints elsewhere get NAT.
 */
export function externalServers(draft: PlanDraft, view: FamilyView, port: PortView): ExternalServers {
  const { service } = view;
  const { external } = port.destinations;
  const method = service.requests?.forwarding;
  if (method === undefined) return { realServers: external, direct: false };
  const warning = obstacleTo(method, view, port);
  if (warning !== undefined) {
    draft.addWarning(warning);
    return { realServers: external, direct: false };
  }
  const here = new Set(port.endpoints.filter(({ traits }) => traits.local).map(({ address }) => address));
  const reached = (server: RealServer): boolean => method === 'tunnel' || here.has(server.address);
  const fields = { forwarding: FORWARDING[method], ...tunnelFields(view) };
  return {
    realServers: external.map((server) => (reached(server) ? { ...server, ...fields } : server)),
    direct: external.some(reached),
  };
}

/** With IPv6, the receiver drops UDP packets without a checksum. */
function tunnelFields({ service, family }: FamilyView): Partial<RealServer> {
  const encapsulation = service.requests?.encapsulation;
  if (encapsulation === undefined) return {};
  const tunnelType = TUNNEL_TYPE[encapsulation.type];
  if (encapsulation.type === 'gre') return { tunnelType };
  return { tunnelType, tunnelPort: encapsulation.port, ...(family === 6 ? { tunnelFlags: TUNNEL_CHECKSUM } : {}) };
}

function obstacleTo(method: DirectForwarding, view: FamilyView, port: PortView): PlanWarning | undefined {
  const why = reasonForNat(method, view, port);
  if (why === undefined) return undefined;
  return {
    reason: FORWARDING_NOT_POSSIBLE,
    message: `port ${port.port} (${port.protocol}) is forwarded with NAT, not by ${method}: ${why}`,
  };
}

function reasonForNat(
  method: DirectForwarding,
  { service }: FamilyView,
  { protocol, port, endpoints }: PortView,
): string | undefined {
  if (protocol === 'SCTP') return 'SCTP needs NAT';
  if (method === 'route' && !service.externalLocal) {
    return 'direct routing reaches only Pods on the same node, so externalTrafficPolicy must be Local';
  }
  const other = endpoints.find((endpoint) => endpoint.port !== port);
  return other === undefined ? undefined : `the target port is ${other.port}, and must be the same`;
}
