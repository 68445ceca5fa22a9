import type { IpFamily } from '../base/ip.ts';
import type { AddressKind } from './address-traits.ts';
import type { IpSet, IpSetType } from './ip-set.ts';

interface SetKind {
  readonly type: IpSetType;
  /**
   * The kind of address of the virtual servers that the entries identify (by address and port, or by node port);
   * absent if they identify none.
   */
  readonly of?: AddressKind;
  /** The protocol of the ports in a bitmap, whose entries do not contain it. */
  readonly protocol?: 'TCP' | 'UDP';
}

/** The ipsets by purpose. Names (without the KUBE- or KUBE-6- prefix) and types are those of kube-proxy, unless noted. */
export const SETS = {
  'LOOP-BACK': { type: 'hash:ip,port,ip' },
  'CLUSTER-IP': { type: 'hash:ip,port', of: 'cluster' },
  'EXTERNAL-IP': { type: 'hash:ip,port', of: 'external' },
  'EXTERNAL-IP-LOCAL': { type: 'hash:ip,port', of: 'external' },
  'LOAD-BALANCER': { type: 'hash:ip,port', of: 'loadBalancer' },
  'LOAD-BALANCER-LOCAL': { type: 'hash:ip,port', of: 'loadBalancer' },
  'LOAD-BALANCER-FW': { type: 'hash:ip,port', of: 'loadBalancer' },
  'LOAD-BALANCER-SOURCE-CIDR': { type: 'hash:ip,port,net', of: 'loadBalancer' },
  'LOAD-BALANCER-SOURCE-IP': { type: 'hash:ip,port,ip', of: 'loadBalancer' },
  'NODE-PORT-TCP': { type: 'bitmap:port', of: 'nodePort', protocol: 'TCP' },
  'NODE-PORT-LOCAL-TCP': { type: 'bitmap:port', of: 'nodePort', protocol: 'TCP' },
  'NODE-PORT-UDP': { type: 'bitmap:port', of: 'nodePort', protocol: 'UDP' },
  'NODE-PORT-LOCAL-UDP': { type: 'bitmap:port', of: 'nodePort', protocol: 'UDP' },
  'NODE-PORT-SCTP-HASH': { type: 'hash:ip,port', of: 'nodePort' },
  'NODE-PORT-LOCAL-SCTP-HASH': { type: 'hash:ip,port', of: 'nodePort' },
  /** Not in kube-proxy: the addresses that serve node ports (see ownership.ts in src/reconcile). */
  'NODE-PORT-IP': { type: 'hash:ip' },
  'HEALTH-CHECK-NODE-PORT': { type: 'bitmap:port' },
  'IPVS-IPS': { type: 'hash:ip' },
} as const satisfies Record<string, SetKind>;

export type SetRole = keyof typeof SETS;

export const SET_ROLES = Object.keys(SETS) as readonly SetRole[];

export function setKind(role: SetRole): SetKind {
  return SETS[role];
}

/** linux/netfilter/ipset/ip_set.h: IPSET_MAXNAMELEN is 32 with the NUL. */
const MAX_NAME_LENGTH = 31;

/** Returns the name of the ipset with this purpose; longer names are cut, as kube-proxy does. */
export function setName(role: SetRole, family: IpFamily): string {
  return `${family === 4 ? 'KUBE-' : 'KUBE-6-'}${role}`.slice(0, MAX_NAME_LENGTH);
}

/** The capacity that kube-proxy gives every set. A bitmap cannot have another one. */
export const DEFAULT_MAX_ENTRIES = 65_536;

/**
 * Returns the ipset of a role, sized for this number of entries: the capacity of a hash set is doubled, from the
 * default, until the entries fill at most three quarters of it.
 */
export function plannedSet(role: SetRole, family: IpFamily, entries: number): IpSet {
  const { type } = SETS[role];
  let maxEntries = DEFAULT_MAX_ENTRIES;
  if (type !== 'bitmap:port') {
    while (maxEntries * 0.75 < entries) maxEntries *= 2;
  }
  return { name: setName(role, family), type, family, maxEntries };
}

/** More entries than any set has. */
const UNLIMITED = 2 ** 31;

/** Returns the set of a mode whose sets have no limit. */
export function unlimitedSet(role: SetRole, family: IpFamily): IpSet {
  const { type } = SETS[role];
  const maxEntries = type === 'bitmap:port' ? DEFAULT_MAX_ENTRIES : UNLIMITED;
  return { name: setName(role, family), type, family, maxEntries };
}
