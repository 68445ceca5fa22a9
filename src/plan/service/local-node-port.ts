import { familyOf } from '../../base/ip.ts';
import type { FamilyView } from '../family-view.ts';
import type { PlanDraft } from '../plan-draft.ts';

/** Plans node ports at loopback addresses. They follow the external traffic policy, like those at other addresses. */
export function planLocalNodePorts(draft: PlanDraft, view: FamilyView): void {
  const { scheduler, timeout: affinitySeconds } = view.settings;
  for (const { nodePort, protocol, name: portName, destinations } of view.ports) {
    if (nodePort === undefined) continue;
    for (const address of view.localNodePortAddresses) {
      if (familyOf(address) !== view.family || !draft.limit.admits(destinations.external)) continue;
      const realServers = destinations.external;
      draft.addLocalNodePort({ address, port: nodePort, protocol, portName, realServers, scheduler, affinitySeconds });
    }
  }
}
