import { cidrContains } from '../../base/cidr.ts';
import type { IpFamily } from '../../base/ip.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import type { PlannedSetEntries } from '../../plan/ipvs/planned-set.ts';
import { SETS, SET_ROLES, type SetRole, setName } from '../../state/set-roles.ts';
import { type IpSetEntry, formatIpSetEntry, ipSetEntryKey } from '../../state/ip-set.ts';
import type { SeenPacket } from './packet.ts';

/** Returns the entry of a set that a packet matches, as `ipset` writes it; undefined if there is none. */
export type SetMatch = (name: string, directions: string, packet: SeenPacket) => string | undefined;

/** Looks packets up in the planned sets of one family. */
export function plannedSets(plan: Pick<NodePlan, 'entries'>, family: IpFamily): SetMatch {
  const roles = new Map<string, SetRole>(SET_ROLES.map((role) => [setName(role, family), role]));
  return (name, directions, packet) => {
    const role = roles.get(name);
    if (role === undefined) throw new Error(`no set ${name} is planned`);
    const found = entryOf(plan.entries(role, family), role, directions, packet);
    return found === undefined ? undefined : formatIpSetEntry(found);
  };
}

function entryOf(
  entries: PlannedSetEntries,
  role: SetRole,
  directions: string,
  { source, destination, protocol, port }: SeenPacket,
): IpSetEntry | undefined {
  const { type } = SETS[role];
  const address = directions.startsWith('src') ? source : destination;
  const sameEntry = (entry: IpSetEntry): IpSetEntry | undefined => entries.get(ipSetEntryKey(entry))?.entry;
  switch (type) {
    case 'hash:ip':
      return sameEntry({ type, address });
    case 'hash:ip,port':
      return sameEntry({ type, address, protocol, port });
    case 'hash:ip,port,ip':
      return sameEntry({ type, address, protocol, port, address2: source });
    case 'bitmap:port':
      return sameEntry({ type, port });
    case 'hash:ip,port,net':
      for (const { entry } of entries.values()) {
        if (entry.type !== type || entry.address !== address || entry.port !== port) continue;
        if (entry.protocol === protocol && cidrContains(entry.network, source)) return entry;
      }
      return undefined;
  }
}
