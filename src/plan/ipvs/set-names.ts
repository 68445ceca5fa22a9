import type { IpFamily } from '../../base/ip.ts';
import type { AddressKind } from '../../state/address-traits.ts';
import { type IpSet, type IpSetType, ipSetName } from '../../state/ip-set.ts';
import { SET_TYPES } from '../../state/set-types.ts';

interface SetKind {
  readonly type: IpSetType;
  /** What the addresses of the virtual servers are that the entries identify (by address and port, or by node port), if any. */
  readonly of?: AddressKind;
  /** The protocol of the ports in a bitmap, whose entries do not contain it. */
  readonly protocol?: 'TCP' | 'UDP';
}

/** The sets by purpose. */
export const SETS = {
  'LOOP-BACK': { type: SET_TYPES['LOOP-BACK'] },
  'CLUSTER-IP': { type: SET_TYPES['CLUSTER-IP'], of: 'cluster' },
  'EXTERNAL-IP': { type: SET_TYPES['EXTERNAL-IP'], of: 'external' },
  'EXTERNAL-IP-LOCAL': { type: SET_TYPES['EXTERNAL-IP-LOCAL'], of: 'external' },
  'LOAD-BALANCER': { type: SET_TYPES['LOAD-BALANCER'], of: 'loadBalancer' },
  'LOAD-BALANCER-LOCAL': { type: SET_TYPES['LOAD-BALANCER-LOCAL'], of: 'loadBalancer' },
  'LOAD-BALANCER-FW': { type: SET_TYPES['LOAD-BALANCER-FW'], of: 'loadBalancer' },
  'LOAD-BALANCER-SOURCE-CIDR': { type: SET_TYPES['LOAD-BALANCER-SOURCE-CIDR'], of: 'loadBalancer' },
  'LOAD-BALANCER-SOURCE-IP': { type: SET_TYPES['LOAD-BALANCER-SOURCE-IP'], of: 'loadBalancer' },
  'NODE-PORT-TCP': { type: SET_TYPES['NODE-PORT-TCP'], of: 'nodePort', protocol: 'TCP' },
  'NODE-PORT-LOCAL-TCP': { type: SET_TYPES['NODE-PORT-LOCAL-TCP'], of: 'nodePort', protocol: 'TCP' },
  'NODE-PORT-UDP': { type: SET_TYPES['NODE-PORT-UDP'], of: 'nodePort', protocol: 'UDP' },
  'NODE-PORT-LOCAL-UDP': { type: SET_TYPES['NODE-PORT-LOCAL-UDP'], of: 'nodePort', protocol: 'UDP' },
  'NODE-PORT-SCTP-HASH': { type: SET_TYPES['NODE-PORT-SCTP-HASH'], of: 'nodePort' },
  'NODE-PORT-LOCAL-SCTP-HASH': { type: SET_TYPES['NODE-PORT-LOCAL-SCTP-HASH'], of: 'nodePort' },
  'NODE-PORT-IP': { type: SET_TYPES['NODE-PORT-IP'] },
  'HEALTH-CHECK-NODE-PORT': { type: SET_TYPES['HEALTH-CHECK-NODE-PORT'] },
  'IPVS-IPS': { type: SET_TYPES['IPVS-IPS'] },
} as const satisfies Record<keyof typeof SET_TYPES, SetKind>;

export type SetRole = keyof typeof SETS;

export const SET_ROLES = Object.keys(SETS) as readonly SetRole[];

export function setKind(role: SetRole): SetKind {
  return SETS[role];
}

export function setName(role: SetRole, family: IpFamily): string {
  return ipSetName(role, family);
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
