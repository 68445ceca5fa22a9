import { type Cidr, cidrContains, cidrFamily, cidrOf } from '../base/cidr.ts';
import { type IpAddress, isIp4 } from '../base/ip.ts';
import type { Port } from '../base/port.ts';
import type { Protocol } from '../base/protocol.ts';
import type { FamilyView } from './family-view.ts';
import type { PlanDraft } from './plan-draft.ts';

/**
 * Restricts one port of a load balancer IP to the allowed ranges. Without a range of this family, all clients are
 * allowed. Exception: if a range is invalid, none is allowed, because that range may have been meant for this family.
 */
export function planSourceRanges(
  draft: PlanDraft,
  { family, service, node }: FamilyView,
  { address, protocol, port }: { readonly address: IpAddress; readonly protocol: Protocol; readonly port: Port },
): void {
  const ranges = service.sourceRanges.filter((range) => cidrFamily(range) === family);
  if (ranges.length === 0 && !service.sourceRangeUnreadable) return;
  draft.addEntry('LOAD-BALANCER-FW', family, { type: 'hash:ip,port', address, protocol, port });
  for (const network of ranges.flatMap(withoutZeroPrefix)) {
    draft.addEntry('LOAD-BALANCER-SOURCE-CIDR', family, { type: 'hash:ip,port,net', address, protocol, port, network });
  }
  // The node's own connections have the load balancer IP as source address, because it is bound here.
  if (node.nodeIps.some((own) => ranges.some((range) => cidrContains(range, own)))) {
    const entry = { type: 'hash:ip,port,ip', address, protocol, port, address2: address } as const;
    draft.addEntry('LOAD-BALANCER-SOURCE-IP', family, entry);
  }
}

/** Replaces a /0, which the kernel's hash:net types cannot hold, with its two /1 halves. */
function withoutZeroPrefix(range: Cidr): readonly Cidr[] {
  if (range.prefix !== 0) return [range];
  const upper = (isIp4(range.address) ? 0x8000_0000 : 1n << 127n) as IpAddress;
  return [cidrOf(range.address, 1), cidrOf(upper, 1)];
}
