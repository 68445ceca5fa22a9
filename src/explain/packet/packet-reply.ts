import { counted } from '../../base/text/counted.ts';
import { cidrContains } from '../../base/cidr.ts';
import { type IpAddress, familyOf, formatHostPort, formatIp } from '../../base/ip.ts';
import type { NamespacedName } from '../../base/service/names.ts';
import type { Port } from '../../base/port.ts';
import type { Protocol } from '../../base/protocol.ts';
import type { SliceModel } from '../../model/slice-model.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import type { NodeView, PlanConfig } from '../../plan/plan-config.ts';
import { planRules } from '../../plan/ipvs/plan-rules.ts';
import type { PlannedVirtualServer } from '../../plan/service-plan.ts';
import type { Op } from '../../state/op.ts';
import type { OtherRules } from '../../state/rules/other-rules.ts';
import { formatRealServer } from '../../state/real-server.ts';
import type { Route } from '../../state/route.ts';
import { type RulesInForce, ruleChainKey } from '../../state/rules/rules-in-force.ts';
import { virtualServerKey } from '../../state/virtual-server.ts';
import { USES } from '../address-use.ts';
import { otherFindings } from './other-findings.ts';
import type { Packet } from './packet.ts';
import { type Origin, originOf } from './packet-origin.ts';
import { packetVerdict } from './packet-verdict.ts';
import { type EndpointPath, type PacketPath, packetPath } from './packet-path.ts';
import { REPLY_API_VERSION, type PacketEndpoint, type PacketReply, type PacketStep } from '../replies.ts';
import type { MatchedRule } from './rule-walk.ts';
import { plannedSets } from './set-match.ts';
import { toolCommand } from '../../state/commands/tool-command.ts';

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
  readonly rules: RulesInForce;
  /** The operations that bring the virtual server and its address to the plan. */
  readonly ops: readonly Op[];
  /** The commands that bring the sysctls, timeouts and local routes of the node to the plan. */
  readonly shared: readonly string[];
  /** Whether the node forwards packets of this IP family that it receives on an interface. */
  readonly forwards: (interfaceName: string) => boolean;
  readonly others: OtherRules;
}

export interface PacketKnowledge {
  readonly asked: AskedPacket;
  readonly node: Pick<NodeView, 'interfaceAddresses'>;
  readonly config: PlanConfig;
  readonly plan: Pick<NodePlan, 'virtualServer' | 'ownerOf' | 'entries' | 'wantsAddress'>;
  readonly slices: (service: NamespacedName) => readonly SliceModel[];
  readonly found: FoundPacket;
}

/** Bounds the reply, and the routes that are looked up. The verdict counts all endpoints. */
export const MOST_ENDPOINTS = 1_000;

/** Says which way the first packet of a connection takes through this node, and who answers it. Yields often. */
export function* packetReply(known: PacketKnowledge): Generator<void, PacketReply> {
  const { asked, config, plan, found } = known;
  const { from, address, port, protocol } = asked;
  const key = virtualServerKey(asked);
  const [planned, service] = [plan.virtualServer(key), plan.ownerOf(key)];
  const family = familyOf(address);
  const { routes, nodeInterface } = found;
  const origin = originOf({ from, route: routes.get(from), detector: config.localDetectors[family], nodeInterface });
  const packet = firstPacket(known, origin);
  const here = service === undefined ? new Set<IpAddress>() : addressesHere(known.slices(service));
  const ours = planRules(config, family);
  const way = yield* packetPath({
    packet,
    origin,
    rules: ours,
    sets: plannedSets(plan, family),
    virtualServer: planned,
    routeTo: (to) => routes.get(to),
    isHere: (server) => here.has(server.address),
    forwards: found.forwards,
  });
  const endpoints = way.endpoints.map(endpointOf);
  const rules = found.rules.missing.map(({ command }) => command);
  const commands = [...found.shared, ...found.ops.map(toolCommand), ...rules];
  const others = otherFindings({
    others: found.others,
    ours,
    packet,
    isOwn: origin === 'this node',
    way,
    route: routes.get(address),
    mustBeLocal: commands.length === 0 && isPlannedLocal(known),
  });
  const to = formatHostPort(address, port);
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
    ...(planned === undefined || service === undefined ? {} : { service, use: USES[planned.traits.kind] }),
    steps: stepsOf(way, planned, service, found.rules),
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

function lookedAt({ variant }: OtherRules): string {
  return (
    `of other programs: rules of iptables (${variant}), base chains of nf_tables by name, virtual servers by firewall mark, ` +
    'and the route to the address; not the way of replies, eBPF programs, and whether the endpoints answer'
  );
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

/** The rules of all endpoints' ways are listed once. */
function stepsOf(
  { before, fate, scheduledIn, endpoints }: PacketPath,
  planned: PlannedVirtualServer | undefined,
  service: NamespacedName | undefined,
  rules: RulesInForce,
): PacketStep[] {
  const ofRule = (matched: MatchedRule): PacketStep => ruleStep(matched, rules);
  const steps = before.map(ofRule);
  if (planned === undefined || (fate !== 'scheduled' && fate !== 'no endpoint')) return steps;
  const after = new Map<string, MatchedRule>();
  for (const matched of endpoints.flatMap((endpoint) => endpoint.after)) {
    const known = after.get(`${matched.chain} ${matched.index}`);
    const entries = [...new Set([...(known?.entries ?? []), ...matched.entries])];
    after.set(`${matched.chain} ${matched.index}`, { ...matched, entries });
  }
  const inOrder = [...after.values()].toSorted((a, b) => a.index - b.index);
  return [...steps, virtualServerStep(scheduledIn, planned, service), ...inOrder.map(ofRule)];
}

function ruleStep({ table, hook, chain, index, rule, entries }: MatchedRule, { packets }: RulesInForce): PacketStep {
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

function virtualServerStep(
  hook: string,
  { virtualServer, realServers }: PlannedVirtualServer,
  service: NamespacedName | undefined,
): PacketStep {
  const { address, port, protocol, scheduler, timeout } = virtualServer;
  const parts = [
    `virtual server ${formatHostPort(address, port)}/${protocol} of ${service}`,
    `scheduler ${scheduler}`,
    counted(realServers.length, 'endpoint'),
    ...(timeout === 0 ? [] : [`a client keeps its endpoint for ${timeout} s (session affinity)`]),
  ];
  return { hook, table: 'ipvs', rule: parts.join(', '), entries: [] };
}

function notesOf({ source }: Packet, { from }: AskedPacket, endpoints: number): string[] {
  const notes: string[] = [];
  if (source !== from) notes.push(`the kernel gives connections of this node to it the source ${formatIp(source)}`);
  if (endpoints > MOST_ENDPOINTS) notes.push(`${endpoints - MOST_ENDPOINTS} more endpoints are not listed`);
  return notes;
}
