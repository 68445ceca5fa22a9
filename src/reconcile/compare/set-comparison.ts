import type { Yielder } from '../../base/yielder.ts';
import { diffIpSet } from '../../diff/ip-set-diff.ts';
import type { ObservedIpSet } from '../../kernel/kernel.ts';
import { SET_ROLES, type SetRole, plannedSet, setName } from '../../state/set-roles.ts';
import { type NodePlan, type SetKey, plannedEntries, setKey } from '../../plan/node/node-plan.ts';
import type { PlanConfig } from '../../plan/plan-config.ts';
import { type IpSet, hasSameType, ipSetEntryKey } from '../../state/ip-set.ts';
import type { Op } from '../../state/op.ts';

/** The capacity (maxelem) of each set, as of the last full check or of a later change that enlarged the set. */
export type SetSizes = Map<SetKey, number>;

/** A set that has one of our names, but the wrong type or family. */
export interface WrongSet {
  readonly role: SetRole;
  readonly wanted: IpSet;
  readonly found: IpSet;
}

export type AddEntry = Extract<Op, { kind: 'add-entry' }>;
type DeleteEntry = Extract<Op, { kind: 'delete-entry' }>;

interface SetDifferences {
  /** Creations, growth and additions; those of deny entries come last. */
  readonly additions: readonly Op[];
  /** Deletions of entries; those of deny entries come first. */
  readonly deletions: readonly DeleteEntry[];
  readonly wrong: readonly WrongSet[];
}

export const DENYING: SetRole = 'LOAD-BALANCER-FW';

/** Compares all sets of some families with the plan. Notes their capacities in `sizes`. */
export async function compareSets(
  plan: NodePlan,
  families: PlanConfig['families'],
  observed: readonly ObservedIpSet[],
  sizes: SetSizes,
  yielder: Yielder,
): Promise<SetDifferences> {
  const byName = new Map(observed.map((set) => [set.name, set]));
  const additions: Op[] = [];
  const deletions: DeleteEntry[][] = [];
  const wrong: WrongSet[] = [];
  for (const family of families) {
    for (const role of denyingLast(plan.roles)) {
      const planned = plan.entries(role, family);
      const set = plannedSet(role, family, planned.size);
      const found = byName.get(set.name);
      sizes.set(setKey(role, family), Math.max(set.maxEntries, found?.maxEntries ?? 0));
      if (found !== undefined && !hasSameType(set, found)) {
        wrong.push({ role, wanted: set, found });
        continue;
      }
      const surplus: DeleteEntry[] = [];
      for (const op of await yielder.finish(diffIpSet(set, planned, found))) {
        if (op.kind === 'delete-entry') surplus.push(op);
        else additions.push(op);
      }
      deletions.push(surplus);
      if (yielder.due) await yielder.yieldIfDue();
    }
  }
  return { additions, deletions: deletions.reverse().flat(), wrong };
}

function denyingLast(roles: readonly SetRole[]): readonly SetRole[] {
  return [...roles.filter((role) => role !== DENYING), ...roles.filter((role) => role === DENYING)];
}

export function isPlanned(plan: Pick<NodePlan, 'entries'>, { set, entry }: AddEntry | DeleteEntry): boolean {
  const role = SET_ROLES.find((each) => setName(each, set.family) === set.name);
  return role !== undefined && plan.entries(role, set.family).has(ipSetEntryKey(entry));
}

/** Returns the operations that create a set of the right type, with its entries, by this name. */
export function creationOf(wrong: WrongSet, plan: Pick<NodePlan, 'entries'>, name = wrong.wanted.name): Op[] {
  const set = { ...wrong.wanted, name };
  return [{ kind: 'create-set', set }, ...additionsTo(set, wrong.role, plan)];
}

/** Returns the operations that fill a set. */
export function additionsTo(set: IpSet, role: SetRole, plan: Pick<NodePlan, 'entries'>): AddEntry[] {
  return plannedEntries(plan.entries(role, set.family)).map((entry) => ({ kind: 'add-entry', set, entry }));
}
