import type { IpFamily } from '../net/ip.ts';
import type { IpSet, IpSetType } from '../state/ip-set.ts';

/** The sets by what they are for; the names in the kernel follow from it and the family. */
export type SetRole = keyof typeof SET_TYPES;

/** Base names (without the KUBE- or KUBE-6- prefix) and types, as kube-proxy has them: other tools look for these. */
export const SET_TYPES = {
  'LOOP-BACK': 'hash:ip,port,ip',
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
  'HEALTH-CHECK-NODE-PORT': 'bitmap:port',
  'IPVS-IPS': 'hash:ip',
} as const satisfies Record<string, IpSetType>;

export const SET_ROLES = Object.keys(SET_TYPES) as readonly SetRole[];

/** linux/netfilter/ipset/ip_set.h: IPSET_MAXNAMELEN is 32 with the NUL. */
const MAX_NAME_LENGTH = 31;

export function setName(role: SetRole, family: IpFamily): string {
  return `${family === 4 ? 'KUBE-' : 'KUBE-6-'}${role}`.slice(0, MAX_NAME_LENGTH);
}

/** The size that kube-proxy gives every set; bitmaps have no other. */
export const DEFAULT_MAX_ENTRIES = 65_536;

/** The set for a role; hash sets grow in powers of two, with room to spare, once more is needed. */
export function plannedSet(role: SetRole, family: IpFamily, entries: number): IpSet {
  const type = SET_TYPES[role];
  let maxEntries = DEFAULT_MAX_ENTRIES;
  if (type !== 'bitmap:port') {
    while (maxEntries * 0.75 < entries) maxEntries *= 2;
  }
  return { name: setName(role, family), type, family, maxEntries };
}
