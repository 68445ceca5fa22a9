import type { FamilyView } from './family-view.ts';
import type { PlanDraft } from './plan-draft.ts';

/**
 * A pod that is sent back to itself would see its own address as the client's and answer itself: such flows are masqueraded. Only
 * pods of this node can be hit, for only they send through it.
 */
export function planHairpin(draft: PlanDraft, { family, ports }: FamilyView): void {
  for (const { protocol, endpoints } of ports) {
    for (const { local, address, port } of endpoints) {
      if (!local) continue;
      draft.addEntry('LOOP-BACK', family, { type: 'hash:ip,port,ip', address, protocol, port, address2: address });
    }
  }
}
