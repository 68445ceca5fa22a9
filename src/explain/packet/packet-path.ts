import type { IpAddress } from '../../base/ip.ts';
import type { RealServer } from '../../state/real-server.ts';
import type { Route } from '../../state/route.ts';
import type { RuleSet } from '../../state/rules/rule-set.ts';
import type { PlannedVirtualServer } from '../../plan/service-plan.ts';
import type { Packet } from './packet.ts';
import type { Origin } from './packet-origin.ts';
import { type Decision, type Hook, type HookWalk, type MatchedRule, walkHook } from './rule-walk.ts';
import type { SetMatch } from './set-match.ts';

export interface PathFacts {
  readonly packet: Packet;
  readonly origin: Origin;
  readonly rules: RuleSet;
  readonly sets: SetMatch;
  /** The virtual server at the packet's destination. */
  readonly virtualServer: PlannedVirtualServer | undefined;
  readonly routeTo: (address: IpAddress) => Route | undefined;
  /** Whether a real server is on this node. */
  readonly isHere: (server: RealServer) => boolean;
  /** Whether the node forwards packets of this IP family that it receives on an interface. */
  readonly forwards: (interfaceName: string) => boolean;
}

/** What happens to the packet before a virtual server has it: `local` and `forwarded` mean that none does. */
export type Fate = 'scheduled' | 'no endpoint' | 'DROP' | 'REJECT' | 'local' | 'forwarded';

/** The way of a packet through this node. */
export interface PacketPath {
  readonly before: readonly MatchedRule[];
  readonly fate: Fate;
  /** The mark of the packet after `before`. */
  readonly mark: number;
  /** The hook in which IPVS takes the packet. */
  readonly scheduledIn: Hook;
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

type Stage = readonly [table: 'mangle' | 'nat' | 'filter', hook: Hook];

/** The hooks before IPVS in which we have rules, in the order of their priorities. */
const SENT_HERE: readonly Stage[] = [
  ['mangle', 'OUTPUT'],
  ['nat', 'OUTPUT'],
];
const RECEIVED: readonly Stage[] = [
  ['nat', 'PREROUTING'],
  ['filter', 'INPUT'],
];
/** Those without a virtual server. A packet of the node to itself is sent, and then received; NAT sees it only once. */
const SENT_TO_ITSELF: readonly Stage[] = [...SENT_HERE, ['filter', 'OUTPUT'], ['filter', 'INPUT']];
const SENT_AWAY: readonly Stage[] = [...SENT_HERE, ['filter', 'OUTPUT'], ['nat', 'POSTROUTING']];
const FORWARDED: readonly Stage[] = [
  ['nat', 'PREROUTING'],
  ['filter', 'FORWARD'],
  ['nat', 'POSTROUTING'],
];

/**
 * Takes the first packet of a connection through the planned rules, and on to each endpoint. IPVS takes packets to
 * local addresses after filter INPUT, and those of the node itself after nat OUTPUT. Yields after each endpoint.
 */
export function* packetPath(facts: PathFacts): Generator<void, PacketPath> {
  const { packet, virtualServer } = facts;
  const isOwn = facts.origin === 'this node';
  const isTaken = virtualServer !== undefined && (isOwn || packet.destinationLocal);
  const { matched: before, decision, packet: taken } = walkStages(facts, stagesOf(isOwn, isTaken, packet));
  const way = { before, mark: taken.mark, scheduledIn: isOwn ? 'OUTPUT' : 'INPUT', endpoints: [] } as const;
  if (decision === 'DROP' || decision === 'REJECT') return { ...way, fate: decision };
  if (!isTaken) return { ...way, fate: packet.destinationLocal ? 'local' : 'forwarded' };
  const realServers = virtualServer.realServers.filter(({ weight }) => weight > 0);
  if (realServers.length === 0) return { ...way, fate: 'no endpoint' };
  const endpoints: EndpointPath[] = [];
  for (const server of realServers) {
    endpoints.push(endpointWay(facts, taken, server));
    yield;
  }
  return { ...way, fate: 'scheduled', endpoints };
}

function stagesOf(isOwn: boolean, isTaken: boolean, { destinationLocal }: Packet): readonly Stage[] {
  if (isOwn && isTaken) return SENT_HERE;
  if (isOwn) return destinationLocal ? SENT_TO_ITSELF : SENT_AWAY;
  return destinationLocal ? RECEIVED : FORWARDED;
}

function walkStages({ rules, sets, packet: first }: PathFacts, stages: readonly Stage[]): HookWalk {
  const matched: MatchedRule[] = [];
  let packet = first;
  let decision: Decision = 'none';
  for (const [table, hook] of stages) {
    const walk = walkHook(rules, table, hook, hasInput(hook) ? packet : withoutInput(packet), sets);
    matched.push(...walk.matched);
    packet = { ...packet, mark: walk.packet.mark };
    decision = walk.decision;
    if (decision === 'DROP' || decision === 'REJECT') break;
  }
  return { matched, decision, packet };
}

function endpointWay(facts: PathFacts, taken: Packet, server: RealServer): EndpointPath {
  const { origin, rules, sets, routeTo, isHere, forwards } = facts;
  const route = routeTo(server.address);
  const isOnNode = route?.local === true;
  const sent = { ...withoutInput(taken), destination: server.address, port: server.port, destinationLocal: isOnNode };
  // A received packet for the node's own network namespace is delivered from INPUT.
  const isDelivered = isOnNode && origin !== 'this node';
  const { matched, decision } = isDelivered
    ? { matched: [], decision: 'none' }
    : walkHook(rules, 'nat', 'POSTROUTING', sent, sets);
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

function hasInput(hook: Hook): boolean {
  return hook === 'PREROUTING' || hook === 'INPUT' || hook === 'FORWARD';
}

function withoutInput(packet: Packet): Packet {
  return { ...packet, inInterface: undefined };
}
