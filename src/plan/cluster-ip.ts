import { bindClusterIp } from './bind-address.ts';
import { type FamilyView, serve } from './family-view.ts';
import type { PlanDraft } from './plan-draft.ts';
import { CLAIM_RANK } from './claim-rank.ts';

/** Plans the cluster IP: it follows the internal traffic policy and has virtual servers even without endpoints. */
export function planClusterIp(draft: PlanDraft, view: FamilyView): void {
  const address = view.clusterIp;
  for (const port of view.ports) {
    if (!draft.limit.admits(port.destinations.internal.length)) continue;
    draft.addEntry('CLUSTER-IP', view.family, {
      type: 'hash:ip,port',
      address,
      protocol: port.protocol,
      port: port.port,
    });
    serve(draft, view, port, { address, port: port.port, rank: CLAIM_RANK.clusterIp }, port.destinations.internal);
  }
  bindClusterIp(draft, view, address);
}
