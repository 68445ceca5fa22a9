import { trimCapacity } from '../../base/trim-capacity.ts';
import type { IpAddress } from '../../base/ip.ts';
import { type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import { filterUnchanged } from '../endpoint/filter-unchanged.ts';
import { withEntries } from '../set-entries.ts';
import type { ServicePlan } from '../service-plan.ts';
import { withSharedLists } from '../shared-lists.ts';

/** The claims that a service won. */
export interface Grants {
  readonly has: (key: VirtualServerKey) => boolean;
  readonly healthCheckPort: boolean;
}

/**
 * Returns a service's plan without its lost claims: without virtual servers that other services own and what only these need.
 * The result equals a plan made without those claims.
 */
export function grantedPlan(plan: ServicePlan, { has, healthCheckPort }: Grants): ServicePlan {
  const { healthCheck, ...rest } = plan;
  const kept = filterUnchanged(plan.virtualServers, ({ virtualServer }) => has(virtualServerKey(virtualServer)));
  const isShared = plan.virtualServers.some(({ virtualServer: { list } }) => list !== undefined);
  const virtualServers = trimCapacity(isShared ? withSharedLists(kept) : kept);
  const ports = new Set(virtualServers.map(({ virtualServer, portName }) => `${virtualServer.protocol} ${portName}`));
  const served = new Set<IpAddress>(virtualServers.map(({ virtualServer }) => virtualServer.address));
  const lost = new Set<IpAddress>();
  for (const { virtualServer } of plan.virtualServers) {
    if (!served.has(virtualServer.address)) lost.add(virtualServer.address);
  }
  const keptOf = (addresses: readonly IpAddress[]): readonly IpAddress[] =>
    trimCapacity(filterUnchanged(addresses, (address) => !lost.has(address)));
  return withEntries({
    ...rest,
    virtualServers,
    addresses: keptOf(plan.addresses),
    closed: keptOf(plan.closed),
    hairpins: trimCapacity(filterUnchanged(plan.hairpins, (each) => ports.has(`${each.protocol} ${each.portName}`))),
    ...(healthCheck === undefined || !healthCheckPort ? {} : { healthCheck }),
    udp: trimCapacity(filterUnchanged(plan.udp, ({ id }) => has(virtualServerKey(id)))),
  });
}
