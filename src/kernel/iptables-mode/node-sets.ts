import { IP_FAMILIES, type IpFamily } from '../../base/ip.ts';
import { type IpSet, type IpSetEntry, type IpSetType, ipSetName } from '../../state/ip-set.ts';
import { SET_TYPES } from '../../state/set-types.ts';
import { healthCheckRule, nodePortAddressRule } from './render/node-chains.ts';
import type { SharedRule } from './render/service-port.ts';

/** More entries than any set has: the rules have no limit. */
const UNLIMITED = 2 ** 31;

function setsOf(family: IpFamily): ReadonlyMap<string, IpSet> {
  return new Map(
    Object.entries<IpSetType>(SET_TYPES).map(([role, type]) => {
      const name = ipSetName(role, family);
      return [name, { name, type, family, maxEntries: type === 'bitmap:port' ? 65_536 : UNLIMITED }];
    }),
  );
}

/** All sets of ipvs mode, by name, of each family. Those without rules of the node stay empty. */
export const SETS: Readonly<Record<IpFamily, ReadonlyMap<string, IpSet>>> = { 4: setsOf(4), 6: setsOf(6) };

const NODE_SETS: ReadonlySet<string> = new Set(
  IP_FAMILIES.flatMap((family) => [ipSetName('NODE-PORT-IP', family), ipSetName('HEALTH-CHECK-NODE-PORT', family)]),
);

/** Whether the entries of a set are rules of the node, which belong to no Service port. */
export function isOfNode(set: string): boolean {
  return NODE_SETS.has(set);
}

/** Returns the rule that such an entry is. */
export function ruleOfEntry(entry: IpSetEntry): readonly SharedRule[] {
  if (entry.type === 'hash:ip') return [nodePortAddressRule(entry.address)];
  return entry.type === 'bitmap:port' ? [healthCheckRule(entry.port)] : [];
}
