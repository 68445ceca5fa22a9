import type { IpFamily } from '../base/ip.ts';
import { type IpSet, type IpSetType, ipSetName } from '../state/ip-set.ts';
import { CLAIM_RANK, type ClaimRank } from './claim-rank.ts';

interface SetKind {
  readonly type: IpSetType;
  /** The claim rank of the virtual servers that the entries identify (by address and port, or by node port), if any. */
  readonly rank?: ClaimRank;
  /** The protocol of the ports in a bitmap, whose entries do not contain it. */
  readonly protocol?: 'TCP' | 'UDP';
}

const { clusterIp, externalIp, loadBalancerIp, nodePort } = CLAIM_RANK;

/** The sets by purpose. Names (without the KUBE- or KUBE-6- prefix) and types are those of kube-proxy, unless noted. */
export const SETS = {
  'LOOP-BACK': { type: 'hash:ip,port,ip' },
  'CLUSTER-IP': { type: 'hash:ip,port', rank: clusterIp },
  'EXTERNAL-IP': { type: 'hash:ip,port', rank: externalIp },
  'EXTERNAL-IP-LOCAL': { type: 'hash:ip,port', rank: externalIp },
  'LOAD-BALANCER': { type: 'hash:ip,port', rank: loadBalancerIp },
  'LOAD-BALANCER-LOCAL': { type: 'hash:ip,port', rank: loadBalancerIp },
  'LOAD-BALANCER-FW': { type: 'hash:ip,port', rank: loadBalancerIp },
  'LOAD-BALANCER-SOURCE-CIDR': { type: 'hash:ip,port,net', rank: loadBalancerIp },
  'LOAD-BALANCER-SOURCE-IP': { type: 'hash:ip,port,ip', rank: loadBalancerIp },
  'NODE-PORT-TCP': { type: 'bitmap:port', rank: nodePort, protocol: 'TCP' },
  'NODE-PORT-LOCAL-TCP': { type: 'bitmap:port', rank: nodePort, protocol: 'TCP' },
  'NODE-PORT-UDP': { type: 'bitmap:port', rank: nodePort, protocol: 'UDP' },
  'NODE-PORT-LOCAL-UDP': { type: 'bitmap:port', rank: nodePort, protocol: 'UDP' },
  'NODE-PORT-SCTP-HASH': { type: 'hash:ip,port', rank: nodePort },
  'NODE-PORT-LOCAL-SCTP-HASH': { type: 'hash:ip,port', rank: nodePort },
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
