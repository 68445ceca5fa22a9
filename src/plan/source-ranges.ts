import { cidrContains, cidrFamily } from '../base/cidr.ts';
import type { IpAddress } from '../base/ip.ts';
import type { Port } from '../base/port.ts';
import type { Protocol } from '../base/protocol.ts';
import type { FamilyView } from './family-view.ts';
import type { PlanDraft } from './plan-draft.ts';

/**
 * Restricts one port of a load balancer IP to the allowed ranges. Without a range of this family, or with a /0, all
 * clients are allowed. Exception: if a range is invalid and none is a /0, only those in the others are allowed, because
 * that range may have been meant for this family.
 */
export function planSourceRanges(
  draft: PlanDraft,
  { family, service, node }: FamilyView,
  { address, protocol, port }: { readonly address: IpAddress; readonly protocol: Protocol; readonly port: Port },
): void {
  const ranges = service.sourceRanges.filter((range) => cidrFamily(range) === family);
  if (ranges.length === 0 && !service.sourceRangeUnreadable) return;
  if (ranges.some(({ prefix }) => prefix === 0)) return;
  draft.addEntry('LOAD-BALANCER-FW', family, { type: 'hash:ip,port', address, protocol, port });
  for (const network of ranges) {
    draft.addEntry('LOAD-BALANCER-SOURCE-CIDR', family, { type: 'hash:ip,port,net', address, protocol, port, network });
  }
  // The node's own connections have the load balancer IP as source address, because it is bound here.
  if (node.nodeIps.some((own) => ranges.some((range) => cidrContains(range, own)))) {
    const entry = { type: 'hash:ip,port,ip', address, protocol, port, address2: address } as const;
    draft.addEntry('LOAD-BALANCER-SOURCE-IP', family, entry);
  }
}
