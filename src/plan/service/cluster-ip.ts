import { addressTraits } from '../../state/address-traits.ts';
import { bindClusterIp } from './address-binding.ts';
import { type FamilyView, planVirtualServer } from '../family-view.ts';
import type { PlanDraft } from '../plan-draft.ts';

/** Plans the cluster IP: it follows the internal traffic policy and has virtual servers even without endpoints. */
export function planClusterIp(draft: PlanDraft, view: FamilyView): void {
  const address = view.clusterIp;
  const traits = addressTraits('cluster', true);
  for (const port of view.ports) {
    if (!draft.limit.admits(port.destinations.internal)) continue;
    planVirtualServer(draft, view, port, { address, port: port.port, traits }, port.destinations.internal);
  }
  bindClusterIp(draft, view, address);
}
