import { counted } from '../../base/text/counted.ts';
import { cidrContains } from '../../base/cidr.ts';
import { type IpAddress, familyOf, formatHostPort, formatIp } from '../../base/ip.ts';
import type { NamespacedName } from '../../base/service/names.ts';
import type { Port } from '../../base/port.ts';
import type { ProxyMode } from '../../base/proxy-mode.ts';
import type { Protocol } from '../../base/protocol.ts';
import type { SliceModel } from '../../model/slice-model.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import type { NodeView, PlanConfig } from '../../plan/plan-config.ts';
import type { PlannedVirtualServer } from '../../plan/service-plan.ts';
import type { OtherRules } from '../../state/rules/other-rules.ts';
import { formatRealServer } from '../../state/real-server.ts';
import type { Route } from '../../state/route.ts';
import { type RulesInForce, ruleChainKey } from '../../state/rules/rules-in-force.ts';
import { virtualServerKey } from '../../state/virtual-server.ts';
import { ADDRESS_KIND_NAMES } from '../address-use.ts';
import { isClosedAddress } from '../closed-address.ts';
import { otherFindings } from './other-findings.ts';
import type { Packet } from './packet.ts';
import { type Origin, originOf } from './packet-origin.ts';
import { packetPlane } from './packet-planes.ts';
import { packetVerdict } from './packet-verdict.ts';
import { type EndpointPath, type PacketPath, packetPath } from './packet-path.ts';
import { REPLY_API_VERSION, type PacketEndpoint, type PacketReply, type PacketStep } from '../replies.ts';
import type { MatchedRule } from './rule-walk.ts';
import { type Words, wordsOf } from '../words.ts';

export interface AskedPacket {
  readonly from: IpAddress;
  readonly address: IpAddress;
  readonly port: Port;
  readonly protocol: Protocol;
}

/** What the kernel has where the packet passes. */
export interface FoundPacket {
  /** The routes to the client, the destination and the endpoints; absent for an address without a route. */
  readonly routes: ReadonlyMap<IpAddress, Route>;
  /** The interface that has the node's own IP. */
  readonly nodeInterface: string | undefined;
  /** What our rules have counted. */
  readonly packets: RulesInForce['packets'];
  /** The commands that bring the kernel to the plan where the packet passes: the node, our rules, the virtual server and its address. */
  readonly commands: readonly string[];
  /** Whether the node forwards packets of this IP family that it receives on an interface. */
  readonly forwards: (interfaceName: string) => boolean;
  readonly others: OtherRules;
}

export interface PacketKnowledge {
  readonly asked: AskedPacket;
  readonly node: Pick<NodeView, 'interfaceAddresses'>;
  readonly config: PlanConfig;
  readonly plan: Pick<NodePlan, 'virtualServer' | 'ownerOf' | 'entries' | 'wantsAddress' | 'services'>;
  readonly slices: (service: NamespacedName) => readonly SliceModel[];
  readonly found: FoundPacket;
  readonly mode: ProxyMode;
}

/** Bounds the reply, and the routes that are looked up. The verdict counts all endpoints. */
export const MOST_ENDPOINTS = 1_000;

/** Describes the path of a connection's first packet through this node, and who answers it. Yields often. */
export function* packetReply(known: PacketKnowledge): Generator<void, PacketReply> {
  const { asked, config, plan, found, mode } = known;
  const { from, address, port, protocol } = asked;
  const key = virtualServerKey(asked);
  const [planned, service] = [plan.virtualServer(key), plan.ownerOf(key)];
  const family = familyOf(address);
  const { routes, nodeInterface } = found;
  const origin = originOf({ from, route: routes.get(from), detector: config.localDetectors[family], nodeInterface });
  const packet = firstPacket(known, origin);
  const here = service === undefined ? new Set<IpAddress>() : addressesHere(known.slices(service));
  const isClosed = yield* isClosedAddress(address, plan);
  const plane = packetPlane(mode, { family, config, plan, planned, isClosed });
  const routeTo = (to: IpAddress): Route | undefined => routes.get(to);
  const way = yield* packetPath({
    packet,
    origin,
    plane,
    virtualServer: planned,
    routeTo,
    isHere: (server) => here.has(server.address),
    forwards: found.forwards,
  });
  const endpoints = way.endpoints.map(endpointOf);
  const { commands } = found;
  const others = otherFindings({
    others: found.others,
    stages: plane.others(packet),
    packet,
    way,
    routeTo,
    isAsPlanned: commands.length === 0,
    mustBeLocal: isPlannedLocal(known),
  });
  const to = formatHostPort(address, port);
  const taking = (): PacketStep => ({
    ...plane.taking(packet),
    rule: planned === undefined ? '' : servedText(planned, service, wordsOf(mode)),
  });
  return {
    apiVersion: REPLY_API_VERSION,
    kind: 'Packet',
    node: config.nodeName,
    ...packetVerdict({ head: `${formatIp(from)} -> ${to}/${protocol}`, way, endpoints, service, commands, others }),
    from: formatIp(from),
    origin,
    source: formatIp(packet.source),
    to,
    protocol,
    ...(planned === undefined || service === undefined
      ? {}
      : { service, use: ADDRESS_KIND_NAMES[planned.traits.kind] }),
    steps: stepsOf(way, found.packets, taking),
    endpoints: endpoints.slice(0, MOST_ENDPOINTS),
    otherRules: others.rules,
    otherChains: found.others.baseChains,
    lookedAt: lookedAt(found.others),
    notes: [...notesOf(packet, asked, endpoints.length), ...others.notes],
    commands,
  };
}

function firstPacket({ asked, node, config, plan, found }: PacketKnowledge, origin: Origin): Packet {
  const { from, address: destination, port, protocol } = asked;
  const { routes } = found;
  const isOwn = origin === 'this node';
  const destinationLocal =
    isPlannedLocal({ asked, config, plan }) ||
    node.interfaceAddresses.includes(destination) ||
    routes.get(destination)?.local === true;
  return {
    source: isOwn ? (routes.get(destination)?.source ?? from) : from,
    destination,
    protocol,
    port,
    mark: 0,
    inInterface: isOwn ? undefined : routes.get(from)?.interfaceName,
    sourceLocal: isOwn,
    destinationLocal,
  };
}

function isPlannedLocal({
  asked: { address },
  config,
  plan,
}: Pick<PacketKnowledge, 'asked' | 'config' | 'plan'>): boolean {
  return plan.wantsAddress(address) || (config.localRouteCidrs ?? []).some((cidr) => cidrContains(cidr, address));
}

function lookedAt({ variant, marks }: OtherRules): string {
  const looked = [
    variant === '' ? 'no rules of iptables, because they cannot be read' : `rules of iptables (${variant})`,
    'base chains of nf_tables by name',
    ...(marks === undefined ? [] : ['virtual servers by firewall mark']),
    'and the route to the address',
  ];
  return `of other programs: ${looked.join(', ')}; not the way of replies, eBPF programs, and whether the endpoints answer`;
}

function addressesHere(slices: readonly SliceModel[]): ReadonlySet<IpAddress> {
  const endpoints = slices.flatMap((slice) => slice.endpoints);
  return new Set(endpoints.filter(({ traits }) => traits.local).map(({ address }) => address));
}

function endpointOf({ server, masqueraded, sees, returns }: EndpointPath): PacketEndpoint {
  return {
    at: formatRealServer(server),
    sees: sees === undefined ? 'an address of this node' : formatIp(sees),
    masqueraded,
    answers: returns,
  };
}

/** Rules that the paths to several endpoints share are listed once. */
function stepsOf(
  { before, disposition, endpoints }: PacketPath,
  packets: FoundPacket['packets'],
  taking: () => PacketStep,
): PacketStep[] {
  const ofRule = (matched: MatchedRule): PacketStep => ruleStep(matched, packets);
  const steps = before.map(ofRule);
  if (disposition !== 'scheduled' && disposition !== 'no endpoint') return steps;
  const after = new Map<string, MatchedRule>();
  for (const matched of endpoints.flatMap((endpoint) => endpoint.after)) {
    const known = after.get(`${matched.chain} ${matched.index}`);
    const entries = [...new Set([...(known?.entries ?? []), ...matched.entries])];
    after.set(`${matched.chain} ${matched.index}`, { ...matched, entries });
  }
  const inOrder = [...after.values()].toSorted((a, b) => a.index - b.index);
  return [...steps, taking(), ...inOrder.map(ofRule)];
}

function ruleStep(
  { table, hook, chain, index, rule, entries }: MatchedRule,
  packets: FoundPacket['packets'],
): PacketStep {
  const count = packets.get(ruleChainKey({ table, name: chain }))?.[index];
  return {
    hook,
    table,
    chain,
    rule: withoutComment(rule),
    entries,
    ...(count === undefined ? {} : { packets: count }),
  };
}

function withoutComment(rule: readonly string[]): string {
  const at = rule.indexOf('--comment');
  return (at < 0 ? rule : rule.toSpliced(at - 2, 4)).join(' ');
}

function servedText(
  { virtualServer, realServers }: PlannedVirtualServer,
  service: NamespacedName | undefined,
  { served }: Words,
): string {
  const { address, port, protocol, scheduler, timeout } = virtualServer;
  const parts = [
    `${served} ${formatHostPort(address, port)}/${protocol} of ${service}`,
    `scheduler ${scheduler}`,
    counted(realServers.length, 'endpoint'),
    ...(timeout === 0 ? [] : [`a client keeps its endpoint for ${timeout} s (session affinity)`]),
  ];
  return parts.join(', ');
}

function notesOf({ source }: Packet, { from }: AskedPacket, endpoints: number): string[] {
  const notes: string[] = [];
  if (source !== from) notes.push(`the kernel gives connections of this node to it the source ${formatIp(source)}`);
  if (endpoints > MOST_ENDPOINTS) notes.push(`${endpoints - MOST_ENDPOINTS} more endpoints are not listed`);
  return notes;
}
