import { IP_FAMILIES } from '../base/ip.ts';
import { setName } from './set-roles.ts';

/** The set of the cluster IPs, for any port. */
export const CLUSTER_IPS = 'cluster-ips';
/** The set of the endpoints that may be their own client. */
export const HAIRPINS = 'hairpin-endpoints';

const BY_IPSET: ReadonlyMap<string, string> = new Map(
  IP_FAMILIES.flatMap((family) => [
    [setName('LOOP-BACK', family), HAIRPINS],
    [setName('IPVS-IPS', family), CLUSTER_IPS],
  ]),
);

/** Returns the name of the set of nf_tables that the plan knows as an ipset. */
export function nftSetName(ipset: string): string {
  return BY_IPSET.get(ipset) ?? ipset;
}
