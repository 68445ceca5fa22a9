import { addingOrder } from '../diff/adding-order.ts';
import { READ_ONLY_LEDGER } from '../diff/drain.ts';
import { diffVirtualServer } from '../diff/virtual-server-diff.ts';
import { planLocalRoutes, type PlanConfig } from '../plan/plan-config.ts';
import type { NodePlan } from '../plan/node/node-plan.ts';
import { planRules } from '../plan/ipvs/plan-rules.ts';
import { plannedSet } from '../state/set-roles.ts';
import type { RuleSet } from '../state/rules/rule-set.ts';
import { Transaction } from '../state/transaction.ts';

/** Returns the operations that program the plan on a node that has nothing yet. Sets without entries are left out. */
export function planOperations(plan: NodePlan, config: PlanConfig): Transaction {
  const tx = new Transaction();
  for (const family of config.families) {
    for (const role of plan.roles) {
      const entries = plan.entries(role, family);
      const set = plannedSet(role, family, entries.size);
      if (entries.size > 0) tx.push({ kind: 'create-set', set });
      for (const { entry } of entries.values()) tx.push({ kind: 'add-entry', set, entry });
    }
  }
  const context = { order: addingOrder(config), ledger: READ_ONLY_LEDGER, now: 0 };
  for (const wanted of plan.virtualServers()) {
    diffVirtualServer(wanted.virtualServer, wanted, undefined, context, tx);
  }
  for (const cidr of planLocalRoutes(config)) tx.push({ kind: 'add-route', cidr });
  for (const address of plan.addresses()) tx.push({ kind: 'bind-address', address });
  return tx;
}

/** Returns the rules of each family of the node. */
export function plannedRules(config: PlanConfig): readonly RuleSet[] {
  return config.families.map((family) => planRules(config, family));
}
