import { type Cidr, cidrContains } from '../net/cidr.ts';
import { type IpAddress, formatIp } from '../net/ip.ts';
import type { FamilyView } from './family-view.ts';
import type { PlanDraft } from './plan-draft.ts';

/**
 * Binds an address to kube-ipvs0, unless a local route covers it (--ipvs-local-route-cidrs). In KUBE-IPVS-IPS it is closed but for its services, so an address that the node itself has
 * on an interface is never put there. Nor is one of --ipvs-unbound-cidrs: whoever makes that one local wants to listen on it.
 */
export function bindClusterIp(draft: PlanDraft, view: FamilyView, address: IpAddress): void {
  if (isIn(view.unboundCidrs, address)) return;
  if (!isIn(view.localRouteCidrs, address)) draft.addAddress(address);
  if (!view.node.interfaceAddresses.includes(address)) {
    draft.addEntry('IPVS-IPS', view.family, { type: 'hash:ip', address });
  }
}

/**
 * External and load balancer IPs may be a node's own: bound, that node could no longer be reached there. On the node that has it
 * the virtual server works without.
 */
export function bindExternalAddress(draft: PlanDraft, view: FamilyView, address: IpAddress): void {
  const { interfaceAddresses, reportedAddresses } = view.node;
  if (!interfaceAddresses.includes(address) && !reportedAddresses.includes(address)) {
    bindClusterIp(draft, view, address);
    return;
  }
  // It was not to be bound anyway: nothing to warn of.
  if (isIn(view.unboundCidrs, address)) return;
  draft.addWarning({
    reason: 'node-owns-address',
    message: `${formatIp(address)} is an address of this node: the service is reachable there, but the address is not bound`,
  });
}

function isIn(cidrs: readonly Cidr[], address: IpAddress): boolean {
  return cidrs.some((cidr) => cidrContains(cidr, address));
}
