import type { IpFamily } from '../base/ip.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { type NodePlan, plannedEntries } from '../plan/node-plan.ts';
import { SET_ROLES, plannedSet } from '../plan/set-names.ts';
import type { Op } from '../state/op.ts';

/**
 * Returns the operations that create missing sets to which rules refer. KUBE-NODE-PORT-IP is also filled: the rules
 * take effect before the first sync ends, and do not masquerade node port traffic if that set is empty.
 */
export async function missingSets(
  kernel: Kernel,
  families: readonly IpFamily[],
  plan: Pick<NodePlan, 'entries'>,
): Promise<Op[]> {
  const existing = new Set((await kernel.getSets()).map((set) => set.name));
  return families.flatMap((family) =>
    SET_ROLES.flatMap((role): Op[] => {
      const set = plannedSet(role, family, 0);
      if (existing.has(set.name)) return [];
      const entries = role === 'NODE-PORT-IP' ? plannedEntries(plan.entries(role, family)) : [];
      return [{ kind: 'create-set', set }, ...entries.map((entry): Op => ({ kind: 'add-entry', set, entry }))];
    }),
  );
}
