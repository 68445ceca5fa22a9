import { bindClusterIp } from './bind-address.ts';
import { type FamilyView, serve } from './family-view.ts';
import type { PlanDraft } from './plan-draft.ts';

/** Cluster IPs follow the internal traffic policy. Without endpoints the virtual server stands empty. */
export function planClusterIp(draft: PlanDraft, view: FamilyView): void {
  const address = view.clusterIp;
  for (const port of view.ports) {
    draft.addEntry('CLUSTER-IP', view.family, {
      type: 'hash:ip,port',
      address,
      protocol: port.protocol,
      port: port.port,
    });
    serve(draft, view, port, { address, port: port.port }, port.destinations.internal);
  }
  bindClusterIp(draft, view, address);
}
