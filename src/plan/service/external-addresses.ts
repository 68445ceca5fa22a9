import type { IpAddress } from '../../base/ip.ts';
import { type AddressKind, type AdmittedSources, addressTraits } from '../../state/address-traits.ts';
import { bindExternalAddress } from './address-binding.ts';
import { type FamilyView, planVirtualServer } from '../family-view.ts';
import { externalServers } from './forwarding.ts';
import type { PlanDraft } from '../plan-draft.ts';
import { admittedSources } from './source-ranges.ts';

/** Plans the external IPs, which follow the external traffic policy. */
export function planExternalIps(draft: PlanDraft, view: FamilyView): void {
  planAddresses(draft, view, 'external', view.externalIps);
}

/** Plans load balancer IPs: they follow the external traffic policy and admit clients in loadBalancerSourceRanges. */
export function planLoadBalancerIps(draft: PlanDraft, view: FamilyView): void {
  planAddresses(draft, view, 'loadBalancer', view.loadBalancerIps, admittedSources(view));
}

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
