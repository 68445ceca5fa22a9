import { cidrContains, cidrFamily, compareCidr } from '../../base/cidr.ts';
import { fewestNetworks } from '../../base/cidr-intervals.ts';
import { sortedUnique } from '../../base/sorted-unique.ts';
import type { AdmittedSources } from '../../state/address-traits.ts';
import type { FamilyView } from '../family-view.ts';

/**
 * Returns the clients that load balancer IPs admit; undefined: all, because there is no range of this family, or one has every
 * address. If a range is invalid, it may have been meant for this family: then only the clients in the others
 * are admitted.
 */
export function admittedSources({ family, service, node, joinsSourceRanges }: FamilyView): AdmittedSources | undefined {
  const ofFamily = service.sourceRanges.filter((range) => cidrFamily(range) === family);
  const ranges = joinsSourceRanges ? fewestNetworks(ofFamily) : sortedUnique(ofFamily, compareCidr);
  if (ranges.length === 0 && !service.sourceRangeUnreadable) return undefined;
  if (ranges.some(({ prefix }) => prefix === 0)) return undefined;
  return {
    ranges,
    // The node's own connections have the load balancer IP as source address, because it is bound here.
    itself: node.nodeIps.some((own) => ranges.some((range) => cidrContains(range, own))),
  };
}
