import { bindExternalAddress } from './bind-address.ts';
import { type FamilyView, serve } from './family-view.ts';
import { externalServers } from './forwarding.ts';
import type { PlanDraft } from './plan-draft.ts';
import { CLAIM_RANK } from './claim-rank.ts';
import { planSourceRanges } from './source-ranges.ts';

/** Plans load balancer IPs: they follow the external traffic policy and admit clients in loadBalancerSourceRanges. */
export function planLoadBalancerIps(draft: PlanDraft, view: FamilyView): void {
  for (const address of view.loadBalancerIps) {
    if (view.ports.length > 0) bindExternalAddress(draft, view, address);
    for (const port of view.ports) {
      if (!draft.limit.admits(port.destinations.external.length)) continue;
      const { protocol, port: number } = port;
      const entry = { type: 'hash:ip,port', address, protocol, port: number } as const;
      draft.addEntry('LOAD-BALANCER', view.family, entry);
      const { realServers, direct } = externalServers(draft, view, port);
      if (view.service.externalLocal || direct) draft.addEntry('LOAD-BALANCER-LOCAL', view.family, entry);
      planSourceRanges(draft, view, entry);
      serve(draft, view, port, { address, port: number, rank: CLAIM_RANK.loadBalancerIp }, realServers);
    }
  }
}
