import { type NodePortView, nodePortAddresses } from '../node-port-addresses.ts';
import type { PlanConfig } from '../plan-config.ts';
import type { PlannedEntry } from '../service-plan.ts';

/**
 * Returns the set entries that depend on the node alone: KUBE-NODE-PORT-IP contains the addresses where this node
 * serves node ports. An entry is added before the virtual servers at its address and deleted after them, so a later run
 * (or a clean-up) recognizes these virtual servers as ours even if the node has lost the address since.
 */
export function planNodeEntries(
  node: NodePortView,
  config: Pick<PlanConfig, 'families' | 'nodePortAddresses' | 'routesLocalnet'>,
): readonly PlannedEntry[] {
  return config.families.flatMap((family) =>
    nodePortAddresses(family, node, config).map((address): PlannedEntry => ({
      role: 'NODE-PORT-IP',
      family,
      entry: { type: 'hash:ip', address },
    })),
  );
}
