import { cidrContains, cidrFamily, compareCidr } from '../../base/cidr.ts';
import { sortedUnique } from '../../base/sorted-unique.ts';
import type { AdmittedSources } from '../../state/address-traits.ts';
import type { FamilyView } from '../family-view.ts';

/**
 * Returns the clients that load balancer IPs admit. Without a range of this family, or with a /0, all clients are allowed, and
 * the result is undefined. Exception: if a range is invalid and none is a /0, only those in the others are allowed, because
 * that range may have been meant for this family.
 */
export function admittedSources({ family, service, node }: FamilyView): AdmittedSources | undefined {
  const ranges = service.sourceRanges.filter((range) => cidrFamily(range) === family);
  if (ranges.length === 0 && !service.sourceRangeUnreadable) return undefined;
  if (ranges.some(({ prefix }) => prefix === 0)) return undefined;
  return {
    ranges: sortedUnique(ranges, compareCidr),
    // The node's own connections have the load balancer IP as source address, because it is bound here.
    itself: node.nodeIps.some((own) => ranges.some((range) => cidrContains(range, own))),
  };
}
