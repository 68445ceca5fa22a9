import type { IpFamily } from '../../base/ip.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import { plannedSet, setName } from '../../state/set-roles.ts';
import { Transaction } from '../../state/transaction.ts';

/**
 * Returns the operations that create missing sets to which rules refer. KUBE-NODE-PORT-IP is also filled: the rules
 * take effect before the first sync ends, and do not masquerade node port traffic if that set is empty.
 */
export async function missingSets(
  kernel: Kernel,
  families: readonly IpFamily[],
  plan: Pick<NodePlan, 'entries' | 'roles'>,
): Promise<Transaction> {
  const names = families.flatMap((family) => plan.roles.map((role) => setName(role, family)));
  const existing = new Set((await kernel.getSets(names)).map((set) => set.name));
  const tx = new Transaction();
  for (const family of families) {
    for (const role of plan.roles) {
      const set = plannedSet(role, family, 0);
      if (existing.has(set.name)) continue;
      tx.push({ kind: 'create-set', set });
      if (role !== 'NODE-PORT-IP') continue;
      for (const { entry } of plan.entries(role, family).values()) tx.push({ kind: 'add-entry', set, entry });
    }
  }
  return tx;
}
