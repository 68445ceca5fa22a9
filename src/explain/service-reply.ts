import { counted } from '../base/text/counted.ts';
import { firstFew } from '../base/text/first-few.ts';
import { IP_FAMILIES, type IpAddress, type IpFamily, formatHostPort, formatIp } from '../base/ip.ts';
import { readIp } from '../base/read-ip.ts';
import { formatRealServer, realServerKey, type ObservedRealServer, type RealServerKey } from '../state/real-server.ts';
import type { NamespacedName } from '../base/service/names.ts';
import type { ServiceDefinition } from '../model/service-model.ts';
import type { SliceModel } from '../model/slice-model.ts';
import type { NodePlan } from '../plan/node/node-plan.ts';
import type { NodeView, PlanConfig } from '../plan/plan-config.ts';
import { healthCheckAddresses } from '../plan/service/health-check.ts';
import { FORWARDING_NOT_POSSIBLE } from '../plan/service/forwarding.ts';
import { schedulerOf } from '../plan/virtual-server-settings.ts';
import { type UnmetRequest, unmetRequests } from '../plan/service/unmet-requests.ts';
import type { PlanWarning, PlannedVirtualServer, ServicePlan } from '../plan/service-plan.ts';
import { type VirtualServerKey, formatVirtualServer, virtualServerKey } from '../state/virtual-server.ts';
import { ADDRESS_KIND_NAMES } from './address-use.ts';
import { closedNodePorts, localNodePorts } from './closed-node-ports.ts';
import { type EndpointUse, type PortUse, endpointUse } from './endpoint-use.ts';
import {
  REPLY_API_VERSION,
  type AddressReply,
  type EndpointReply,
  type PortReply,
  type ServiceReply,
  type SetReply,
} from './replies.ts';
import { type FoundCounters, countersOf } from './service-counters.ts';
import { type RefusedOp, refusedReply } from './refused-reply.ts';
import { type FoundEntries, clientsOf, setsOf } from './service-sets.ts';
import { schedulerFlags } from '../state/commands/tool-command.ts';
import { verdictOf } from './verdict.ts';
import type { Words } from './words.ts';

/** What the kernel has of a Service. */
export interface FoundService extends FoundCounters, FoundEntries {
  /** The commands that bring each virtual server and its address to the plan; none for one that is as planned. */
  readonly commands: ReadonlyMap<VirtualServerKey, readonly string[]>;
  readonly realServers: ReadonlyMap<VirtualServerKey, readonly ObservedRealServer[]>;
  /** The commands that bring the node itself to the plan, where the Service depends on it. */
  readonly ofNode: readonly string[];
  /** Settings of the node that stop forwarded packets, in sentences. */
  readonly nodeNotes: readonly string[];
  readonly refused: readonly RefusedOp[];
  /** The number of conntrack flows to each virtual server of UDP; absent if they were not counted. */
  readonly udpFlows?: ReadonlyMap<VirtualServerKey, number>;
}

export interface ServiceKnowledge {
  readonly name: NamespacedName;
  readonly definition: ServiceDefinition;
  readonly slices: readonly SliceModel[];
  readonly node: NodeView;
  readonly config: PlanConfig;
  readonly plan: Pick<NodePlan, 'service' | 'ownerOf' | 'conflictsOf'>;
  readonly found: FoundService;
  readonly words: Words;
}

/** Bounds the reply. A Service rarely has more endpoints; the verdict is about all of them. */
const MOST_ENDPOINTS = 1_000;

/** Where a listener at all addresses of a family is asked. */
const LOOPBACK: Readonly<Record<IpFamily, IpAddress | undefined>> = { 4: readIp('127.0.0.1'), 6: readIp('::1') };

/** Says what a Service is on this node, in the plan and in the kernel, and whether it can answer. Yields often. */
export function* serviceReply(known: ServiceKnowledge): Generator<void, ServiceReply> {
  const { name, definition, slices, node, config, plan, words } = known;
  const planned = plan.service(name);
  const uses = yield* endpointUse(definition, slices, node, config);
  const ports = uses.map((use) => portReply(use, planned?.virtualServers ?? [], known));
  const conflicts = plan.conflictsOf(name).map(({ claimed, owner }) => `${claimed} belongs to ${owner}`);
  const unmet = unmetRequests(definition, node, config);
  const warnings = planned?.warnings ?? definition.warnings;
  // An unmet default has no warning.
  const notes = new Set([
    ...unservedExternalIps(definition, config),
    ...conflicts,
    ...[...warnings, ...unmet].map(({ message }) => message),
    ...closedNodePorts(definition, node, config),
    ...localNodePorts(planned),
    ...known.found.nodeNotes,
  ]);
  const sets = setsOf(known.found, config, words);
  const refused = known.found.refused.map((refused) => refusedReply(refused, words));
  const { ofNode } = known.found;
  const others = [...nodeLack(ofNode), ...conflicts, ...sets.flatMap(lackOf)];
  const verdict = verdictOf(name, ports, slices.length, { refused, others });
  return {
    apiVersion: REPLY_API_VERSION,
    kind: 'Service',
    node: config.nodeName,
    ...verdict,
    service: name,
    settings: {
      scheduler: schedulerOf(definition, node, config),
      flags: flagsOf(planned?.virtualServers ?? []),
      internalTrafficPolicy: definition.internalLocal ? 'Local' : 'Cluster',
      externalTrafficPolicy: definition.externalLocal ? 'Local' : 'Cluster',
      affinitySeconds: definition.affinitySeconds,
    },
    ...annotationsOf(definition, unmet, warnings),
    ports: ports.map(bounded),
    ...healthChecksOf(planned, node, config),
    sets,
    refused,
    nodeCommands: firstFew(ofNode),
    notes: [...notes],
  };
}

/** The first address of each IP family: all others of it answer the same. */
function healthChecksOf(
  planned: ServicePlan | undefined,
  node: NodeView,
  config: PlanConfig,
): Pick<ServiceReply, 'healthChecks'> {
  const check = planned?.healthCheck;
  if (check === undefined) return {};
  const places = healthCheckAddresses(node, config);
  const healthChecks = IP_FAMILIES.flatMap((family) => {
    const localEndpoints = check.localEndpoints[family];
    const listening = places[family];
    const address = listening === 'all' ? LOOPBACK[family] : listening?.[0];
    if (localEndpoints === undefined || address === undefined) return [];
    return [{ at: formatHostPort(address, check.port), localEndpoints }];
  });
  return { healthChecks };
}

function unservedExternalIps({ externalIps }: ServiceDefinition, { servesExternalIps }: PlanConfig): string[] {
  if (servesExternalIps !== false || externalIps.length === 0) return [];
  const shown = externalIps.map(formatIp).join(', ');
  return [`external IPs are not served, because the feature gate AllowServiceExternalIPs is off: ${shown}`];
}

function annotationsOf(
  { asked }: ServiceDefinition,
  unmet: readonly UnmetRequest[],
  warnings: readonly PlanWarning[],
): Pick<ServiceReply, 'annotations'> {
  if (asked === undefined) return {};
  const annotations = asked.map(({ name, value, from, problem }) => {
    const why =
      problem ??
      unmet.find(({ annotation }) => annotation === name) ??
      warnings.find(({ reason }) => name === 'forwarding' && reason === FORWARDING_NOT_POSSIBLE);
    return {
      name,
      value,
      ...(from === undefined ? {} : { from }),
      inForce: why === undefined,
      ...(why === undefined ? {} : { why: why.message }),
    };
  });
  return { annotations };
}

/** All virtual servers of a Service have the same. */
function flagsOf([first]: readonly PlannedVirtualServer[]): string[] {
  return first === undefined ? [] : schedulerFlags(first.virtualServer);
}

function nodeLack([first, ...more]: readonly string[]): string[] {
  if (first === undefined) return [];
  const rest = more.length === 0 ? '' : ` (and ${counted(more.length, 'more command')})`;
  return [`what all Services share on this node is not as planned: ${first}${rest}`];
}

function lackOf({ set, commands }: SetReply): string[] {
  return commands.length === 0 ? [] : [`the kernel lacks entries of ${set}`];
}

function bounded(port: PortReply): PortReply {
  const more = port.endpoints.length - MOST_ENDPOINTS;
  if (more <= 0) return port;
  const notes = [...port.notes, `${more} more endpoints are not listed`];
  return { ...port, endpoints: port.endpoints.slice(0, MOST_ENDPOINTS), notes };
}

function portReply(
  { port, endpoints, notes }: PortUse,
  all: readonly PlannedVirtualServer[],
  known: ServiceKnowledge,
): PortReply {
  const { name, protocol, port: number } = port;
  const virtualServers = all.filter((each) => each.portName === name && each.virtualServer.protocol === protocol);
  const own = virtualServers
    .map(({ virtualServer }) => virtualServer)
    .filter((id) => known.plan.ownerOf(virtualServerKey(id)) === known.name);
  const servers = new Map<RealServerKey, Connections>();
  for (const id of own) count(servers, known.found.realServers.get(virtualServerKey(id)) ?? []);
  const { udpFlows } = known.found;
  const listed = endpoints.map((use) => endpointReply(use, servers, known.words));
  return {
    name,
    protocol,
    port: number,
    addresses: virtualServers.map((planned) => addressReply(planned, known)),
    endpoints: [...listed, ...drainingReplies(endpoints, servers, known.words)],
    counters: countersOf(own, known.found),
    ...(udpFlows === undefined || protocol !== 'UDP'
      ? {}
      : { udpFlows: own.reduce((sum, id) => sum + (udpFlows.get(virtualServerKey(id)) ?? 0), 0) }),
    notes: notes.map(({ text }) => text),
  };
}

interface Connections {
  readonly at: string;
  /** At the first address that has it: the others have the same, unless another program changed it. */
  readonly weight: number;
  active: number;
  inactive: number;
}

function count(servers: Map<RealServerKey, Connections>, found: readonly ObservedRealServer[]): void {
  for (const server of found) {
    const key = realServerKey(server);
    const sum = servers.get(key) ?? { at: formatRealServer(server), weight: server.weight, active: 0, inactive: 0 };
    sum.active += server.activeConnections;
    sum.inactive += server.inactiveConnections;
    servers.set(key, sum);
  }
}

function endpointReply(
  { slice, at, key, use, why }: EndpointUse,
  servers: ReadonlyMap<RealServerKey, Connections>,
  words: Words,
): EndpointReply {
  const found = key === undefined ? undefined : servers.get(key);
  const drains = found?.weight === 0 && use === 'none';
  const reason = drains ? `${why}; it drains` : why;
  return {
    slice,
    at,
    use,
    ...(reason === undefined ? {} : { why: reason }),
    ...(found === undefined ? {} : inKernel(found, words)),
  };
}

/** Real servers that no slice has with this port any more, but that keep their connections. */
function drainingReplies(
  endpoints: readonly EndpointUse[],
  servers: ReadonlyMap<RealServerKey, Connections>,
  words: Words,
): EndpointReply[] {
  const known = new Set(endpoints.map(({ key }) => key));
  return Array.from(servers).flatMap(([key, found]) =>
    known.has(key) || found.weight > 0
      ? []
      : [
          {
            slice: '',
            at: found.at,
            use: 'none',
            why: 'no longer an endpoint of this port; it drains',
            ...inKernel(found, words),
          },
        ],
  );
}

function inKernel({ weight, active, inactive }: Connections, { countsConnections }: Words) {
  return { weight, ...(countsConnections ? { activeConnections: active, inactiveConnections: inactive } : {}) };
}

function addressReply(
  { virtualServer, traits, realServers }: PlannedVirtualServer,
  { name, config, plan, found }: ServiceKnowledge,
): AddressReply {
  const key = virtualServerKey(virtualServer);
  const [, at = ''] = formatVirtualServer(virtualServer).split(' ');
  const use = ADDRESS_KIND_NAMES[traits.kind];
  const owner = plan.ownerOf(key);
  if (owner !== undefined && owner !== name) {
    return { use, at, endpoints: 0, state: 'belongs to another Service', owner, commands: [] };
  }
  const clients = clientsOf(virtualServer, config);
  return {
    use,
    at,
    endpoints: realServers.length,
    state: found.commands.has(key) ? 'differs' : 'as planned',
    ...(clients === undefined ? {} : { clients }),
    commands: found.commands.get(key) ?? [],
  };
}
