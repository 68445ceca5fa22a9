import { IP_FAMILIES, familyOf } from '../base/ip.ts';
import type { Protocol } from '../base/protocol.ts';
import { sortedUnique } from '../base/sorted-unique.ts';
import { trimCapacity } from '../base/trim-capacity.ts';
import type { AddressTraits } from '../state/address-traits.ts';
import type { IpSetEntry } from '../state/ip-set.ts';
import type { VirtualServerId } from '../state/virtual-server.ts';
import type { PlannedEntry, ServicePlan } from './service-plan.ts';
import { compareEntry } from './entry-order.ts';
import type { SetRole } from '../state/set-roles.ts';

/** Completes a plan with the set entries that its other parts need. */
export function withEntries(plan: Omit<ServicePlan, 'entries'>): ServicePlan {
  const entries: PlannedEntry[] = [];
  for (const { protocol, endpoints } of plan.hairpins) {
    for (const { address, port } of endpoints) {
      const entry = { type: 'hash:ip,port,ip', address, protocol, port, address2: address } as const;
      entries.push({ role: 'LOOP-BACK', family: familyOf(address), entry });
    }
  }
  for (const { virtualServer, traits } of plan.virtualServers) {
    // A virtual server that has the traits itself needs no entries for them.
    if (virtualServer.traits === undefined) entries.push(...entriesOfAddress(virtualServer, traits));
  }
  for (const family of IP_FAMILIES) {
    if (plan.healthCheck?.localEndpoints[family] === undefined) continue;
    entries.push({
      role: 'HEALTH-CHECK-NODE-PORT',
      family,
      entry: { type: 'bitmap:port', port: plan.healthCheck.port },
    });
  }
  for (const address of plan.closed) {
    entries.push({ role: 'IPVS-IPS', family: familyOf(address), entry: { type: 'hash:ip', address } });
  }
  return { ...plan, entries: trimCapacity(sortedUnique(entries, compareEntry)) };
}

const NODE_PORT_ROLES = {
  TCP: { all: 'NODE-PORT-TCP', local: 'NODE-PORT-LOCAL-TCP' },
  UDP: { all: 'NODE-PORT-UDP', local: 'NODE-PORT-LOCAL-UDP' },
  SCTP: { all: 'NODE-PORT-SCTP-HASH', local: 'NODE-PORT-LOCAL-SCTP-HASH' },
} as const satisfies Record<Protocol, { all: SetRole; local: SetRole }>;

export function entriesOfAddress(
  { address, port, protocol }: VirtualServerId,
  { kind, keepsSource, admitted }: AddressTraits,
): readonly PlannedEntry[] {
  const family = familyOf(address);
  const of = (role: SetRole, entry: IpSetEntry): PlannedEntry => ({ role, family, entry });
  const entry = { type: 'hash:ip,port', address, protocol, port } as const;
  switch (kind) {
    case 'cluster':
      return [of('CLUSTER-IP', entry)];
    case 'external':
      return [of(keepsSource ? 'EXTERNAL-IP-LOCAL' : 'EXTERNAL-IP', entry)];
    case 'loadBalancer': {
      const sources = admitted?.ranges.map((network) =>
        of('LOAD-BALANCER-SOURCE-CIDR', { ...entry, type: 'hash:ip,port,net', network }),
      );
      const itself = of('LOAD-BALANCER-SOURCE-IP', { ...entry, type: 'hash:ip,port,ip', address2: address });
      return [
        of('LOAD-BALANCER', entry),
        ...(keepsSource ? [of('LOAD-BALANCER-LOCAL', entry)] : []),
        ...(sources === undefined ? [] : [of('LOAD-BALANCER-FW', entry), ...sources]),
        ...(admitted?.itself === true ? [itself] : []),
      ];
    }
    case 'nodePort': {
      const { all, local } = NODE_PORT_ROLES[protocol];
      // bitmap:port sets exist for TCP and UDP only; SCTP uses hash:ip,port, which needs an entry for each address.
      const ofPort = protocol === 'SCTP' ? entry : ({ type: 'bitmap:port', port } as const);
      return [of(all, ofPort), ...(keepsSource ? [of(local, ofPort)] : [])];
    }
  }
}
