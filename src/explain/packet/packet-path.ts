import type { IpAddress } from '../../base/ip.ts';
import type { RealServer } from '../../state/real-server.ts';
import type { Route } from '../../state/route.ts';
import type { PlannedVirtualServer } from '../../plan/service-plan.ts';
import type { Packet } from './packet.ts';
import type { Origin } from './packet-origin.ts';
import type { PacketPlane } from './packet-plane.ts';
import type { MatchedRule } from './rule-walk.ts';

export interface PathFacts {
  readonly packet: Packet;
  readonly origin: Origin;
  readonly plane: PacketPlane;
  readonly virtualServer: PlannedVirtualServer | undefined;
  readonly routeTo: (address: IpAddress) => Route | undefined;
  readonly isHere: (server: RealServer) => boolean;
  /** Whether the node forwards packets of this IP family that it receives on an interface. */
  readonly forwards: (interfaceName: string) => boolean;
}

/** What happens to the packet before a virtual server takes it; none does if it is `local` or `forwarded`. */
export type PacketDisposition = 'scheduled' | 'no endpoint' | 'DROP' | 'REJECT' | 'local' | 'forwarded';

export interface PacketPath {
  readonly before: readonly MatchedRule[];
  readonly disposition: PacketDisposition;
  /** The mark of the packet after `before`. */
  readonly mark: number;
  readonly endpoints: readonly EndpointPath[];
}

export interface EndpointPath {
  readonly server: RealServer;
  readonly after: readonly MatchedRule[];
  readonly masqueraded: boolean;
  /** The source address that the endpoint sees; undefined is an address of this node that is not known. */
  readonly sees: IpAddress | undefined;
  /** Whether its replies return through this node, and so reach the client. */
  readonly returns: boolean;
  /** The interface that does not forward the replies; absent if none is in the way. */
  readonly stoppedAt?: string;
}

/**
 * Takes the first packet of a connection through the planned rules, and on to each endpoint. Yields after each endpoint.
 */
export function* packetPath(facts: PathFacts): Generator<void, PacketPath> {
  const { packet, virtualServer, plane } = facts;
  const { matched: before, decision, packet: taken } = plane.before(packet);
  const way = { before, mark: taken.mark, endpoints: [] } as const;
  if (decision === 'DROP' || decision === 'REJECT') return { ...way, disposition: decision };
  if (virtualServer === undefined || !plane.takes(packet))
    return { ...way, disposition: packet.destinationLocal ? 'local' : 'forwarded' };
  const realServers = virtualServer.realServers.filter(({ weight }) => weight > 0);
  if (realServers.length === 0) return { ...way, disposition: 'no endpoint' };
  const endpoints: EndpointPath[] = [];
  for (const server of realServers) {
    endpoints.push(endpointWay(facts, taken, server));
    yield;
  }
  return { ...way, disposition: 'scheduled', endpoints };
}

function endpointWay(facts: PathFacts, taken: Packet, server: RealServer): EndpointPath {
  const { origin, plane, routeTo, isHere, forwards } = facts;
  const route = routeTo(server.address);
  const isOnNode = route?.local === true;
  const sent = { ...taken, ...towardsEndpoint(server), destinationLocal: isOnNode };
  // A received packet for the node's own network namespace is delivered from INPUT.
  const isDelivered = isOnNode && origin !== 'this node' && plane.forwards !== true;
  const { matched, decision } = isDelivered ? { matched: [], decision: 'none' } : plane.after(sent);
  const masqueraded = decision === 'MASQUERADE';
  const staysHere = origin === 'this node' || origin === 'Pod of this node' || isOnNode || isHere(server);
  const isAnswered = masqueraded || staysHere;
  // Connection tracking gives a masqueraded reply the address of the client before it is routed.
  const isForwarded = origin !== 'this node' && !isOnNode && route !== undefined;
  const stoppedAt = isForwarded && !forwards(route.interfaceName) ? route.interfaceName : undefined;
  return {
    server,
    after: matched,
    masqueraded,
    sees: masqueraded ? route?.source : taken.source,
    returns: isAnswered && stoppedAt === undefined,
    ...(isAnswered && stoppedAt !== undefined ? { stoppedAt } : {}),
  };
}

/** Returns the fields of a packet that change when it is sent to an endpoint. */
export function towardsEndpoint({ address: destination, port }: RealServer): Pick<Packet, 'destination' | 'port'> {
  return { destination, port };
}
