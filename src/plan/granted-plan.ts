import { trimCapacity } from '../base/trim-capacity.ts';
import type { IpAddress } from '../base/ip.ts';
import { type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';
import { filterUnchanged } from './filter-unchanged.ts';
import { CLAIM_RANK, type ClaimRank } from './claim-rank.ts';
import type { PlannedEntry, PlannedVirtualServer, ServicePlan } from './service-plan.ts';
import { setKind } from './set-names.ts';

/** The claims that a service won. */
export interface Grants {
  readonly has: (key: VirtualServerKey) => boolean;
  readonly healthCheckPort: boolean;
}

/**
 * Returns a service's plan without its lost claims: without virtual servers that other services own and the addresses,
 * set entries and UDP endpoints that only these need. The result equals a plan made without those claims.
 */
export function grantedPlan(plan: ServicePlan, { has, healthCheckPort }: Grants): ServicePlan {
  const { healthCheck, ...rest } = plan;
  const virtualServers = trimCapacity(
    filterUnchanged(plan.virtualServers, ({ virtualServer }) => has(virtualServerKey(virtualServer))),
  );
  const served = new Set<IpAddress>(virtualServers.map(({ virtualServer }) => virtualServer.address));
  const lost = new Set<IpAddress>();
  for (const { virtualServer } of plan.virtualServers) {
    if (!served.has(virtualServer.address)) lost.add(virtualServer.address);
  }
  const stands = standsWith(virtualServers, lost, healthCheckPort);
  return {
    ...rest,
    virtualServers,
    addresses: trimCapacity(filterUnchanged(plan.addresses, (address) => !lost.has(address))),
    entries: trimCapacity(filterUnchanged(plan.entries, stands)),
    ...(healthCheck === undefined || !healthCheckPort ? {} : { healthCheck }),
    udp: trimCapacity(filterUnchanged(plan.udp, ({ id }) => has(virtualServerKey(id)))),
  };
}

/** Returns a predicate that selects the set entries that these virtual servers need. */
export function standsWith(
  virtualServers: readonly PlannedVirtualServer[],
  lostAddresses: ReadonlySet<IpAddress>,
  healthCheckPort: boolean,
): (entry: PlannedEntry) => boolean {
  const ranks = new Map<VirtualServerKey, ClaimRank>();
  const nodePorts = new Set<string>();
  const portNames = new Set<string>();
  for (const { virtualServer, rank, portName } of virtualServers) {
    const { protocol, port } = virtualServer;
    ranks.set(virtualServerKey(virtualServer), rank);
    if (rank === CLAIM_RANK.nodePort) nodePorts.add(`${protocol} ${port}`);
    portNames.add(`${protocol} ${portName}`);
  }
  return ({ role, entry, portName }) => {
    if (entry.type === 'hash:ip') return !lostAddresses.has(entry.address);
    if (role === 'HEALTH-CHECK-NODE-PORT') return healthCheckPort;
    if (entry.type === 'bitmap:port') return nodePorts.has(`${setKind(role).protocol} ${entry.port}`);
    if (role === 'LOOP-BACK') return portNames.has(`${entry.protocol} ${portName}`);
    return ranks.get(virtualServerKey(entry)) === setKind(role).rank;
  };
}
