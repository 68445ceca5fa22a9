import type { IpFamily } from '../base/ip.ts';
import { type IpSet, type IpSetType, ipSetName } from './ip-set.ts';

/** The ipsets by purpose. Names (without the KUBE- or KUBE-6- prefix) and types are those of kube-proxy, unless noted. */
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
  /** Not in kube-proxy: the addresses that serve node ports (see ownership.ts in src/reconcile). */
  'NODE-PORT-IP': 'hash:ip',
  'HEALTH-CHECK-NODE-PORT': 'bitmap:port',
  'IPVS-IPS': 'hash:ip',
} as const satisfies Record<string, IpSetType>;

/** More entries than any set has. */
const UNLIMITED = 2 ** 31;

/** Returns the set of a mode whose sets have no limit. */
export function unlimitedSet(role: keyof typeof SET_TYPES, family: IpFamily): IpSet {
  const type = SET_TYPES[role];
  return { name: ipSetName(role, family), type, family, maxEntries: type === 'bitmap:port' ? 65_536 : UNLIMITED };
}
