import type { FamilyView } from './family-view.ts';
import type { PlanDraft } from './plan-draft.ts';

/**
 * Masquerades connections of a pod to a service that selects the pod itself. Otherwise, the pod would see its own
 * address as client and reply to itself. Only local endpoints need this: a pod connects through its own node. An endpoint
 * of an unknown node may be local, too; in ipvs mode, KUBE-LOOP-BACK lacks it, as with kube-proxy.
 */
export function planHairpin(draft: PlanDraft, { family, ports, bindAddresses }: FamilyView): void {
  for (const { protocol, name, endpoints } of ports) {
    for (const { address, port, traits } of endpoints) {
      if (!traits.local && (bindAddresses || traits.unplaced !== true)) continue;
      const entry = { type: 'hash:ip,port,ip', address, protocol, port, address2: address } as const;
      draft.addEntry('LOOP-BACK', family, entry, name);
    }
  }
}
