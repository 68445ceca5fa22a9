import { bindExternalAddress } from './bind-address.ts';
import { type FamilyView, serve } from './family-view.ts';
import { externalServers } from './forwarding.ts';
import type { PlanDraft } from './plan-draft.ts';
import { CLAIM_RANK } from './claim-rank.ts';

/** Plans the external IPs, which follow the external traffic policy. */
export function planExternalIps(draft: PlanDraft, view: FamilyView): void {
  for (const address of view.externalIps) {
    if (view.ports.length > 0) bindExternalAddress(draft, view, address);
    for (const port of view.ports) {
      if (!draft.limit.admits(port.destinations.external.length)) continue;
      const { protocol, port: number } = port;
      const { realServers, direct } = externalServers(draft, view, port);
      const role = view.service.externalLocal || direct ? 'EXTERNAL-IP-LOCAL' : 'EXTERNAL-IP';
      draft.addEntry(role, view.family, { type: 'hash:ip,port', address, protocol, port: number });
      serve(draft, view, port, { address, port: number, rank: CLAIM_RANK.externalIp }, realServers);
    }
  }
}
