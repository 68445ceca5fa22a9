import { IP_FAMILIES } from '../base/ip.ts';
import { ipSetName } from './ip-set.ts';
import type { SET_TYPES } from './set-types.ts';

const NAMES: Readonly<Record<keyof typeof SET_TYPES, string>> = {
  'LOOP-BACK': 'hairpin-endpoints',
  'CLUSTER-IP': 'cluster-ip-ports',
  'EXTERNAL-IP': 'external-ip-ports',
  'EXTERNAL-IP-LOCAL': 'external-ip-ports-local',
  'LOAD-BALANCER': 'load-balancer-ports',
  'LOAD-BALANCER-LOCAL': 'load-balancer-ports-local',
  'LOAD-BALANCER-FW': 'firewall-ports',
  'LOAD-BALANCER-SOURCE-CIDR': 'firewall-ranges',
  'LOAD-BALANCER-SOURCE-IP': 'firewall-nodes',
  'NODE-PORT-TCP': 'nodeports-tcp',
  'NODE-PORT-LOCAL-TCP': 'nodeports-tcp-local',
  'NODE-PORT-UDP': 'nodeports-udp',
  'NODE-PORT-LOCAL-UDP': 'nodeports-udp-local',
  'NODE-PORT-SCTP-HASH': 'nodeports-sctp',
  'NODE-PORT-LOCAL-SCTP-HASH': 'nodeports-sctp-local',
  // Not nodeport-ips: kube-proxy deletes that set, and fails if a rule of another program refers to it.
  'NODE-PORT-IP': 'nodeport-addresses',
  'HEALTH-CHECK-NODE-PORT': 'health-check-nodeports',
  'IPVS-IPS': 'cluster-ips',
};

const BY_IPSET: ReadonlyMap<string, string> = new Map(
  Object.entries(NAMES).flatMap(([role, name]) =>
    IP_FAMILIES.map((family) => [ipSetName(role, family), name] as const),
  ),
);

/** Returns the name of the set of nf_tables that stands for an ipset of ipvs mode. The names that upstream has, too, are its. */
export function nftSetName(ipset: string): string {
  return BY_IPSET.get(ipset) ?? ipset;
}
