import { addressTraits } from '../../state/address-traits.ts';
import { type FamilyView, planVirtualServer } from '../family-view.ts';
import type { PlanDraft } from '../plan-draft.ts';

/** Plans node ports at every selected address of the node. They follow the external traffic policy. */
export function planNodePorts(draft: PlanDraft, view: FamilyView): void {
  const traits = addressTraits('nodePort', view.service.externalLocal);
  for (const port of view.ports) {
    if (port.nodePort === undefined) continue;
    for (const address of view.nodeAddresses) {
      if (!draft.limit.admits(port.destinations.external)) continue;
      planVirtualServer(draft, view, port, { address, port: port.nodePort, traits }, port.destinations.external);
    }
  }
}
