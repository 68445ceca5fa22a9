import { DrainLedger } from '../diff/drain.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { type IpFamily, familyOf } from '../net/ip.ts';
import type { NodePlan } from '../plan/node-plan.ts';
import type { PlanConfig } from '../plan/plan-config.ts';
import { planLocalRoutes } from '../plan/local-routes.ts';
import { planRules } from '../plan/plan-rules.ts';
import { SET_ROLES, plannedSet } from '../plan/set-names.ts';
import type { Op, OpKind } from '../state/op.ts';
import { formatFailure } from '../state/outcome.ts';
import { transaction } from '../state/transaction.ts';
import { Breather } from '../net/breather.ts';
import { changeOps } from './change-sync.ts';
import { applyGuarded } from './deny-guard.ts';
import { readVirtualServers } from './read-virtual-servers.ts';

/** What takes nothing away from anybody, whatever else the kernel holds. */
const ADDS: ReadonlySet<OpKind> = new Set<OpKind>([
  'add-entry',
  'add-virtual-server',
  'add-real-server',
  'bind-address',
]);

/** Of the virtual servers that are added; entries and addresses come with them. */
function familyOfOp(op: Op): IpFamily | undefined {
  if (op.kind === 'add-virtual-server') return familyOf(op.virtualServer.address);
  return op.kind === 'add-real-server' ? familyOf(op.id.address) : undefined;
}

/** Sets that rules name and the kernel does not have. */
export async function missingSets(kernel: Kernel, families: readonly IpFamily[]): Promise<Op[]> {
  const there = new Set((await kernel.getSets()).map((set) => set.name));
  const wanted = families.flatMap((family) => SET_ROLES.map((role) => plannedSet(role, family, 0)));
  return wanted.filter((set) => !there.has(set.name)).map((set) => ({ kind: 'create-set', set }));
}

/**
 * Programs what has been planned so far, while the rest of the cluster is not known: nothing may be deleted, drained or rewritten, for all
 * that looks superfluous may be somebody's. Answers why nothing was added, undefined where it was. Rejects where the kernel cannot be read or written.
 */
export async function addAhead(kernel: Kernel, config: PlanConfig, plan: NodePlan): Promise<string | undefined> {
  const changes = plan.takeChanges();
  const have = await readVirtualServers(
    kernel,
    changes.virtualServers.map(({ id }) => id),
  );
  const { ops } = await changeOps(plan, changes, have, new Map(), new DrainLedger(0), 0, new Breather());
  const adds = ops.filter(({ kind }) => ADDS.has(kind));
  if (!adds.some(({ kind }) => kind === 'add-real-server')) return 'it has all its real servers already';
  const families = config.families.filter((family) => adds.some((op) => familyOfOp(op) === family));
  const failures = [...(await kernel.apply(transaction(await missingSets(kernel, families)))).failures];
  // A program each: what only the other family needs is for the first sync.
  for (const family of families) {
    // The mode of a kube-proxy before us, whose services live in chains of the same names.
    if (!(await kernel.addRules(planRules(config, family)))) return 'other rules stand in our chains';
  }
  // Where a route stands for the service's address; one that is there counts as done.
  const routes = planLocalRoutes(config).map((cidr): Op => ({ kind: 'add-route', cidr }));
  failures.push(...(await applyGuarded(kernel, transaction([...adds, ...routes]))).failures);
  return failures.length === 0 ? undefined : `the kernel refused ${failures.map(formatFailure).join(', ')}`;
}
