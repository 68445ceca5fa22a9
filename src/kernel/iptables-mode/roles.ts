import { IP_FAMILIES, type IpFamily } from '../../base/ip.ts';
import { type IpSet, type IpSetType, ipSetName } from '../../state/ip-set.ts';

/**
 * The sets of ipvs mode. In this mode their entries are rules: those of an address and port say what the address is to its
 * service. The plan leaves out the entries of the others, which this mode does not need.
 */
const TYPES = {
  'CLUSTER-IP': 'hash:ip,port',
  'EXTERNAL-IP': 'hash:ip,port',
  'EXTERNAL-IP-LOCAL': 'hash:ip,port',
  'LOAD-BALANCER': 'hash:ip,port',
  'LOAD-BALANCER-LOCAL': 'hash:ip,port',
  'LOAD-BALANCER-FW': 'hash:ip,port',
  'LOAD-BALANCER-SOURCE-CIDR': 'hash:ip,port,net',
  'LOAD-BALANCER-SOURCE-IP': 'hash:ip,port,ip',
  'NODE-PORT-TCP': 'bitmap:port',
  'NODE-PORT-LOCAL-TCP': 'bitmap:port',
  'NODE-PORT-UDP': 'bitmap:port',
  'NODE-PORT-LOCAL-UDP': 'bitmap:port',
  'NODE-PORT-SCTP-HASH': 'hash:ip,port',
  'NODE-PORT-LOCAL-SCTP-HASH': 'hash:ip,port',
  'NODE-PORT-IP': 'hash:ip',
  'HEALTH-CHECK-NODE-PORT': 'bitmap:port',
} as const satisfies Record<string, IpSetType>;

const OMITTED = {
  // Every endpoint's chain masquerades what comes from the endpoint itself.
  'LOOP-BACK': 'hash:ip,port,ip',
  // Service addresses are not bound, so none needs protection.
  'IPVS-IPS': 'hash:ip',
} as const satisfies Record<string, IpSetType>;

export type Role = keyof typeof TYPES;

/** More entries than any set has: the rules have no limit. */
const UNLIMITED = 2 ** 31;

function setsOf(family: IpFamily): ReadonlyMap<string, IpSet> {
  return new Map(
    Object.entries<IpSetType>({ ...TYPES, ...OMITTED }).map(([role, type]) => {
      const name = ipSetName(role, family);
      return [name, { name, type, family, maxEntries: type === 'bitmap:port' ? 65_536 : UNLIMITED }];
    }),
  );
}

/** All sets, by name, of each family. */
export const SETS: Readonly<Record<IpFamily, ReadonlyMap<string, IpSet>>> = { 4: setsOf(4), 6: setsOf(6) };

const OMITTED_NAMES: ReadonlySet<string> = new Set(
  Object.keys(OMITTED).flatMap((role) => IP_FAMILIES.map((family) => ipSetName(role, family))),
);

/** Whether this mode has no rules for the entries of a set. */
export function isOmitted(set: string): boolean {
  return OMITTED_NAMES.has(set);
}
