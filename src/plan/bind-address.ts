import { type IpAddress, formatIp } from '../net/ip.ts';
import type { FamilyView } from './family-view.ts';
import type { PlanDraft } from './plan-draft.ts';

/**
 * Binds an address to kube-ipvs0. In KUBE-IPVS-IPS it is closed but for its services, so an address that the node itself has
 * on an interface is never put there.
 */
export function bindClusterIp(draft: PlanDraft, { family, node }: FamilyView, address: IpAddress): void {
  draft.addAddress(address);
  if (!node.interfaceAddresses.includes(address)) {
    draft.addEntry('IPVS-IPS', family, { type: 'hash:ip', address });
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
  draft.addWarning({
    reason: 'node-owns-address',
    message: `${formatIp(address)} is an address of this node: the service is reachable there, but the address is not bound`,
  });
}
