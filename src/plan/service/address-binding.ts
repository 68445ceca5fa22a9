import { type Cidr, cidrContains } from '../../base/cidr.ts';
import { type IpAddress, formatIp } from '../../base/ip.ts';
import type { FamilyView } from '../family-view.ts';
import type { PlanDraft } from '../plan-draft.ts';

/**
 * Binds an address to kube-ipvs0, unless a local route covers it (--ipvs-local-route-cidrs). Also closes
 * it, unless another interface has it: the rules reject new connections to closed addresses at ports without a Service.
 * Addresses in --ipvs-unbound-cidrs are neither bound nor closed: another program listens there.
 */
export function bindClusterIp(draft: PlanDraft, view: FamilyView, address: IpAddress): void {
  if (isIn(view.unboundCidrs, address)) return;
  if (view.bindAddresses && !isIn(view.localRouteCidrs, address)) draft.addAddress(address);
  if (view.roles.includes('IPVS-IPS') && !view.node.interfaceAddresses.includes(address)) draft.closeAddress(address);
}

/**
 * An external or load balancer IP may be an address of this node. It is then not bound to kube-ipvs0, because the node
 * would become unreachable at that address; the virtual server works without binding.
 *
 * It may also be an address of another host, such as another node. Where nothing is bound, packets to its other ports
 * go to that host, so they are not rejected: only cluster IPs are closed.
 */
export function bindExternalAddress(draft: PlanDraft, view: FamilyView, address: IpAddress): void {
  const { interfaceAddresses, reportedAddresses } = view.node;
  if (!interfaceAddresses.includes(address) && !reportedAddresses.includes(address)) {
    if (view.bindAddresses) bindClusterIp(draft, view, address);
    return;
  }
  // Addresses in these networks are never bound, so no warning is needed.
  if (isIn(view.unboundCidrs, address)) return;
  draft.addWarning({
    reason: 'node-owns-address',
    message: `${formatIp(address)} is an address of this node: the service is reachable there, but the address is not bound`,
  });
}

function isIn(cidrs: readonly Cidr[], address: IpAddress): boolean {
  return cidrs.some((cidr) => cidrContains(cidr, address));
}
