import { type IpAddress, familyOf } from '../../base/ip.ts';
import { type AddressKind, type AdmittedSources, addressTraits } from '../../state/address-traits.ts';
import { bindExternalAddress, bindClusterIp } from './address-binding.ts';
import { type FamilyView, planVirtualServer } from '../family-view.ts';
import { externalServers } from './forwarding.ts';
import type { PlanDraft } from '../plan-draft.ts';
import { cidrContains, cidrFamily, compareCidr } from '../../base/cidr.ts';
import { fewestNetworks } from '../../base/cidr-intervals.ts';
import { sortedUnique } from '../../base/sorted-unique.ts';

/** Plans the addresses and node ports of a Service. Only load balancer IPs heed loadBalancerSourceRanges. */
export function planServiceAddresses(draft: PlanDraft, view: FamilyView): void {
  planClusterIp(draft, view);
  planAddresses(draft, view, 'external', view.externalIps);
  planAddresses(draft, view, 'loadBalancer', view.loadBalancerIps, admittedSources(view));
  planNodePorts(draft, view);
  planLocalNodePorts(draft, view);
}

/** Plans external addresses. They follow the external traffic policy. */
function planAddresses(
  draft: PlanDraft,
  view: FamilyView,
  kind: AddressKind,
  addresses: readonly IpAddress[],
  admitted?: AdmittedSources,
): void {
  for (const address of addresses) {
    if (view.ports.length > 0) bindExternalAddress(draft, view, address);
    for (const port of view.ports) {
      if (!draft.limit.admits(port.destinations.external)) continue;
      const { realServers, direct } = externalServers(draft, view, port);
      const traits = addressTraits(kind, view.service.externalLocal || direct, admitted);
      planVirtualServer(draft, view, port, { address, port: port.port, traits }, realServers);
    }
  }
}

/** Plans the cluster IP: it follows the internal traffic policy and has virtual servers even without endpoints. */
function planClusterIp(draft: PlanDraft, view: FamilyView): void {
  const address = view.clusterIp;
  const traits = addressTraits('cluster', true);
  for (const port of view.ports) {
    if (!draft.limit.admits(port.destinations.internal)) continue;
    planVirtualServer(draft, view, port, { address, port: port.port, traits }, port.destinations.internal);
  }
  bindClusterIp(draft, view, address);
}

/** Plans node ports at every selected address of the node. They follow the external traffic policy. */
function planNodePorts(draft: PlanDraft, view: FamilyView): void {
  const traits = addressTraits('nodePort', view.service.externalLocal);
  for (const port of view.ports) {
    if (port.nodePort === undefined) continue;
    for (const address of view.nodeAddresses) {
      if (!draft.limit.admits(port.destinations.external)) continue;
      planVirtualServer(draft, view, port, { address, port: port.nodePort, traits }, port.destinations.external);
    }
  }
}

/** Plans node ports at loopback addresses. They follow the external traffic policy, like those at other addresses. */
function planLocalNodePorts(draft: PlanDraft, view: FamilyView): void {
  const { scheduler, timeout: affinitySeconds } = view.settings;
  for (const { nodePort, protocol, name: portName, destinations } of view.ports) {
    if (nodePort === undefined) continue;
    for (const address of view.localNodePortAddresses) {
      if (familyOf(address) !== view.family || !draft.limit.admits(destinations.external)) continue;
      const realServers = destinations.external;
      draft.addLocalNodePort({ address, port: nodePort, protocol, portName, realServers, scheduler, affinitySeconds });
    }
  }
}

/**
 * Returns the clients that load balancer IPs admit; undefined: all, because there is no range of this family, or one has every
 * address. If a range is invalid, it may have been meant for this family: then only the clients in the others
 * are admitted.
 */
function admittedSources({ family, service, node, joinsSourceRanges }: FamilyView): AdmittedSources | undefined {
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
