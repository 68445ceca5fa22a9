import { compareCidr } from '../base/cidr.ts';
import { compareIp } from '../base/ip.ts';
import { PROTOCOL_NUMBER } from '../base/protocol.ts';
import type { IpSetEntry } from '../state/ip-set.ts';
import type { PlannedEntry } from './service-plan.ts';
import { SET_ROLES } from '../state/set-roles.ts';

const ROLE_INDEX = new Map(SET_ROLES.map((role, index) => [role, index]));

/** Defines a total order: returns 0 only for equal entries. */
export function compareEntry(a: PlannedEntry, b: PlannedEntry): number {
  return (
    (ROLE_INDEX.get(a.role) ?? 0) - (ROLE_INDEX.get(b.role) ?? 0) ||
    a.family - b.family ||
    compareContent(a.entry, b.entry)
  );
}

// Entries with the same role have the same type.
function compareContent(a: IpSetEntry, b: IpSetEntry): number {
  return (
    ('address' in a && 'address' in b ? compareIp(a.address, b.address) : 0) ||
    ('port' in a && 'port' in b ? a.port - b.port : 0) ||
    ('protocol' in a && 'protocol' in b ? PROTOCOL_NUMBER[a.protocol] - PROTOCOL_NUMBER[b.protocol] : 0) ||
    ('address2' in a && 'address2' in b ? compareIp(a.address2, b.address2) : 0) ||
    ('network' in a && 'network' in b ? compareCidr(a.network, b.network) : 0)
  );
}
