import { IP_FAMILIES, type IpFamily } from '../../base/ip.ts';
import { type IpSet, type IpSetType, ipSetName } from '../../state/ip-set.ts';
import { SET_TYPES } from '../../state/set-types.ts';

/** Sets whose entries the plan leaves out, because this mode has no rules for them. */
const OMITTED = [
  // Every endpoint's chain masquerades what comes from the endpoint itself.
  'LOOP-BACK',
  // Service addresses are not bound, so none needs protection.
  'IPVS-IPS',
] as const satisfies readonly (keyof typeof SET_TYPES)[];

/**
 * The sets of ipvs mode whose entries are rules in this mode: those of an address and port say what the address is to its
 * service.
 */
export type Role = Exclude<keyof typeof SET_TYPES, (typeof OMITTED)[number]>;

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

/** All sets, by name, of each family. */
export const SETS: Readonly<Record<IpFamily, ReadonlyMap<string, IpSet>>> = { 4: setsOf(4), 6: setsOf(6) };

const OMITTED_NAMES: ReadonlySet<string> = new Set(
  OMITTED.flatMap((role) => IP_FAMILIES.map((family) => ipSetName(role, family))),
);

/** Whether this mode has no rules for the entries of a set. */
export function isOmitted(set: string): boolean {
  return OMITTED_NAMES.has(set);
}
