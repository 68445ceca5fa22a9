import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { Cluster } from '../../src/model/cluster.ts';
import { nodeIps } from '../../src/model/node.ts';
import type { ServiceModel } from '../../src/model/service-model.ts';
import { type IpAddress, familyOf } from '../../src/base/ip.ts';
import type { Protocol } from '../../src/base/protocol.ts';
import type { IpSetEntry } from '../../src/state/ip-set.ts';
import type { NodeView, PlanConfig } from '../../src/plan/plan-config.ts';
import { planService } from '../../src/plan/service/plan-service.ts';
import type { PlannedEntry, PlannedUdp, PlannedVirtualServer, ServicePlan } from '../../src/plan/service-plan.ts';
import type { SetRole } from '../../src/state/set-roles.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../../src/state/virtual-server.ts';

/** The kernel state that all Services together require. */
export interface Wanted {
  readonly virtualServers: readonly PlannedVirtualServer[];
  readonly addresses: readonly IpAddress[];
  readonly entries: readonly PlannedEntry[];
  /** The real servers that may reply for each UDP virtual server; absent if there are none. */
  readonly answering: ReadonlyMap<VirtualServerKey, PlannedUdp['answering']>;
}

interface Claim {
  readonly service: ServiceModel;
  readonly rank: number;
  readonly planned: PlannedVirtualServer;
}

/** Precedence of claims, highest first. */
const RANKS = { clusterIp: 0, nodePort: 1, loadBalancerIp: 2, externalIp: 3 } as const;

/**
 * Computes the required state from scratch in the simplest way: plans each Service as if it were alone. If several
 * claim a virtual server, only the winner gets it and the objects that belong to it.
 */
export function winnersOf(
  objects: readonly SourceEvent[],
  config: PlanConfig,
  interfaceAddresses: readonly IpAddress[],
): Wanted {
  const cluster = new Cluster(config.nodeName);
  for (const event of objects) cluster.apply(event);
  const reportedAddresses = cluster.node()?.reportedAddresses ?? [];
  const node: NodeView = { zone: '', nodeIps: nodeIps(reportedAddresses), reportedAddresses, interfaceAddresses };
  const services = cluster.names().flatMap((name) => cluster.service(name) ?? []);
  const plans = new Map(services.map((service) => [service, planService(service, node, config)]));
  const claims = services.flatMap((service) =>
    (plans.get(service)?.virtualServers ?? []).map((planned): Claim => {
      return { service, rank: rankOf(service, planned.virtualServer, interfaceAddresses), planned };
    }),
  );
  const winners = new Map<VirtualServerKey, Claim>();
  for (const claim of claims.toSorted(compareClaims)) {
    const key = virtualServerKey(claim.planned.virtualServer);
    if (!winners.has(key)) winners.set(key, claim);
  }
  const healthPorts = new Map<number, ServiceModel>();
  for (const service of services.toSorted(compareServices)) {
    const port = service.healthCheckNodePort;
    if (port !== undefined && !healthPorts.has(port)) healthPorts.set(port, service);
  }

  const addresses = new Set<IpAddress>();
  const entries = new Map<string, PlannedEntry>();
  for (const [service, plan] of plans) {
    const won = [...winners.values()].filter((claim) => claim.service === service);
    for (const address of plan.addresses) if (isServed(address, plan, won)) addresses.add(address);
    for (const entry of plan.entries) {
      if (isNeeded(entry, service, plan, won, healthPorts)) entries.set(entryText(entry), entry);
    }
  }
  for (const address of interfaceAddresses) {
    // Addresses for NodePorts, present even without NodePorts.
    const entry: PlannedEntry = {
      role: 'NODE-PORT-IP',
      family: familyOf(address),
      entry: { type: 'hash:ip', address },
    };
    entries.set(entryText(entry), entry);
  }
  return {
    virtualServers: Array.from(winners.values(), ({ planned }) => planned),
    addresses: [...addresses],
    entries: [...entries.values()],
    answering: new Map(
      Array.from(winners, ([key, { service }]) => [key, answeringAt(key, plans.get(service))] as const).filter(
        ([, answering]) => answering.length > 0,
      ),
    ),
  };
}

function answeringAt(key: VirtualServerKey, plan: ServicePlan | undefined): PlannedUdp['answering'] {
  return plan?.udp.find(({ id }) => virtualServerKey(id) === key)?.answering ?? [];
}

/** Returns the precedence of the Service's claim to the virtual server; of several, the highest. */
function rankOf(service: ServiceModel, id: VirtualServerId, nodeAddresses: readonly IpAddress[]): number {
  const { address, port, protocol } = id;
  const servicePort = service.ports.some((one) => one.port === port && one.protocol === protocol);
  const nodePort = service.ports.some((one) => one.nodePort === port && one.protocol === protocol);
  if (servicePort && service.clusterIps.includes(address)) return RANKS.clusterIp;
  if (nodePort && nodeAddresses.includes(address)) return RANKS.nodePort;
  return service.loadBalancerIps.includes(address) ? RANKS.loadBalancerIp : RANKS.externalIp;
}

function compareClaims(a: Claim, b: Claim): number {
  return a.rank - b.rank || compareServices(a.service, b.service);
}

function compareServices(a: ServiceModel, b: ServiceModel): number {
  const [ageA, ageB] = [a.createdAt ?? Infinity, b.createdAt ?? Infinity];
  if (ageA !== ageB) return ageA < ageB ? -1 : 1;
  return a.name < b.name ? -1 : 1;
}

/** Returns whether the address is bound. An address of a Service without ports is bound too. */
function isServed(address: IpAddress, plan: ServicePlan, won: readonly Claim[]): boolean {
  const claimed = plan.virtualServers.some(({ virtualServer }) => virtualServer.address === address);
  return !claimed || won.some(({ planned }) => planned.virtualServer.address === address);
}

function isNeeded(
  { role, family, entry }: PlannedEntry,
  service: ServiceModel,
  plan: ServicePlan,
  won: readonly Claim[],
  healthPorts: ReadonlyMap<number, ServiceModel>,
): boolean {
  if (role === 'HEALTH-CHECK-NODE-PORT') return 'port' in entry && healthPorts.get(entry.port) === service;
  if (role === 'LOOP-BACK') {
    return won.some(
      ({
        rank,
        planned: {
          virtualServer: { protocol, port },
        },
      }) =>
        service.ports.some(
          (one) =>
            isHairpin(entry, one.name, protocol, plan) &&
            one.protocol === protocol &&
            (rank === RANKS.nodePort ? one.nodePort : one.port) === port,
        ),
    );
  }
  if (entry.type === 'hash:ip') return isServed(entry.address, plan, won);
  const ofRole = won.filter(({ rank }) => rank === rankOfRole(role)).map(({ planned }) => planned.virtualServer);
  if (entry.type === 'bitmap:port') {
    return ofRole.some(
      ({ address, port, protocol }) => familyOf(address) === family && port === entry.port && role.endsWith(protocol),
    );
  }
  return ofRole.some((id) => virtualServerKey(id) === virtualServerKey(entry));
}

function isHairpin(entry: IpSetEntry, name: string, protocol: Protocol, plan: ServicePlan): boolean {
  if (entry.type !== 'hash:ip,port,ip' || entry.protocol !== protocol) return false;
  return plan.hairpins.some(
    (each) =>
      each.portName === name &&
      each.protocol === protocol &&
      each.endpoints.some(({ address, port }) => address === entry.address && port === entry.port),
  );
}

function rankOfRole(role: SetRole): number {
  if (role === 'CLUSTER-IP') return RANKS.clusterIp;
  if (role.startsWith('NODE-PORT')) return RANKS.nodePort;
  return role.startsWith('LOAD-BALANCER') ? RANKS.loadBalancerIp : RANKS.externalIp;
}

function entryText({ role, family, entry }: PlannedEntry): string {
  return JSON.stringify([role, family, entry], (_, value: unknown) => (typeof value === 'bigint' ? `${value}` : value));
}
