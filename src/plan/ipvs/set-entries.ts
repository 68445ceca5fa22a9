import { IP_FAMILIES, type IpFamily, familyOf } from '../../base/ip.ts';
import type { Protocol } from '../../base/protocol.ts';
import { sortedUnique } from '../../base/sorted-unique.ts';
import { trimCapacity } from '../../base/trim-capacity.ts';
import type { IpSetEntry } from '../../state/ip-set.ts';
import type { PlannedEntry, PlannedVirtualServer, ServicePlan } from '../service-plan.ts';
import { compareEntry } from './entry-order.ts';
import type { SetRole } from './set-names.ts';

/** Completes a plan with the set entries that its other parts need. */
export function withEntries(plan: Omit<ServicePlan, 'entries'>): ServicePlan {
  const entries: PlannedEntry[] = [];
  const add: Add = (role, family, entry) => entries.push({ role, family, entry });
  for (const { protocol, endpoints } of plan.hairpins) {
    for (const { address, port } of endpoints) {
      add('LOOP-BACK', familyOf(address), { type: 'hash:ip,port,ip', address, protocol, port, address2: address });
    }
  }
  for (const planned of plan.virtualServers) addAddress(add, planned);
  for (const family of IP_FAMILIES) {
    if (plan.healthCheck?.localEndpoints[family] === undefined) continue;
    add('HEALTH-CHECK-NODE-PORT', family, { type: 'bitmap:port', port: plan.healthCheck.port });
  }
  for (const address of plan.closed) add('IPVS-IPS', familyOf(address), { type: 'hash:ip', address });
  return { ...plan, entries: trimCapacity(sortedUnique(entries, compareEntry)) };
}

type Add = (role: SetRole, family: IpFamily, entry: IpSetEntry) => void;

const NODE_PORT_ROLES = {
  TCP: { all: 'NODE-PORT-TCP', local: 'NODE-PORT-LOCAL-TCP' },
  UDP: { all: 'NODE-PORT-UDP', local: 'NODE-PORT-LOCAL-UDP' },
  SCTP: { all: 'NODE-PORT-SCTP-HASH', local: 'NODE-PORT-LOCAL-SCTP-HASH' },
} as const satisfies Record<Protocol, { all: SetRole; local: SetRole }>;

/** Adds the entries that say what the address of a virtual server is to its Service. */
function addAddress(add: Add, { virtualServer, traits }: PlannedVirtualServer): void {
  // The rules of a Service port need no sets.
  if (virtualServer.traits !== undefined) return;
  const { address, port, protocol } = virtualServer;
  const family = familyOf(address);
  const entry = { type: 'hash:ip,port', address, protocol, port } as const;
  switch (traits.kind) {
    case 'cluster':
      add('CLUSTER-IP', family, entry);
      break;
    case 'external':
      add(traits.keepsSource ? 'EXTERNAL-IP-LOCAL' : 'EXTERNAL-IP', family, entry);
      break;
    case 'loadBalancer':
      add('LOAD-BALANCER', family, entry);
      if (traits.keepsSource) add('LOAD-BALANCER-LOCAL', family, entry);
      addSources(add, family, entry, traits.admitted);
      break;
    case 'nodePort': {
      const { all, local } = NODE_PORT_ROLES[protocol];
      // bitmap:port sets exist for TCP and UDP only; SCTP uses hash:ip,port, which needs an entry for each address.
      const ofPort = protocol === 'SCTP' ? entry : ({ type: 'bitmap:port', port } as const);
      add(all, family, ofPort);
      if (traits.keepsSource) add(local, family, ofPort);
    }
  }
}

function addSources(
  add: Add,
  family: IpFamily,
  entry: Extract<IpSetEntry, { type: 'hash:ip,port' }>,
  admitted: PlannedVirtualServer['traits']['admitted'],
): void {
  if (admitted === undefined) return;
  add('LOAD-BALANCER-FW', family, entry);
  for (const network of admitted.ranges) {
    add('LOAD-BALANCER-SOURCE-CIDR', family, { ...entry, type: 'hash:ip,port,net', network });
  }
  if (admitted.itself) {
    add('LOAD-BALANCER-SOURCE-IP', family, { ...entry, type: 'hash:ip,port,ip', address2: entry.address });
  }
}
