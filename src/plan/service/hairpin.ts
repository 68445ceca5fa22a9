import type { FamilyView } from '../family-view.ts';
import type { PlanDraft } from '../plan-draft.ts';

/**
 * Plans which endpoints need masquerading of connections to a Service that selects the client itself. Otherwise, the Pod would
 * see its own address as client and reply to itself. Only local endpoints need this: a Pod connects through its own node. An
 * endpoint of an unknown node may be local, too; in ipvs mode, it is left out, as with kube-proxy.
 */
export function planHairpin(draft: PlanDraft, { ports, bindAddresses, roles }: FamilyView): void {
  if (!roles.includes('LOOP-BACK')) return;
  for (const { protocol, name: portName, endpoints: all } of ports) {
    const endpoints = all
      .filter(({ traits }) => traits.local || (!bindAddresses && traits.unplaced === true))
      .map(({ address, port }) => ({ address, port }));
    if (endpoints.length > 0) draft.addHairpin({ portName, protocol, endpoints });
  }
}
