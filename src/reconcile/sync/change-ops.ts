import { type IpFamily, familyOf } from '../../base/ip.ts';
import type { Yielder } from '../../base/yielder.ts';
import { type DiffContext, type FoundVirtualServer, diffVirtualServer } from '../../diff/virtual-server-diff.ts';
import {
  type EntryChange,
  type NodePlan,
  type PlanChanges,
  type SetKey,
  plannedEntries,
  setKey,
} from '../../plan/node/node-plan.ts';
import { plannedSet } from '../../state/set-roles.ts';
import type { Op } from '../../state/op.ts';
import type { SetSizes } from '../compare/set-comparison.ts';
import { Transaction } from '../../state/transaction.ts';
import { type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';

/** Returns the operations for a change. `found` contains its virtual servers as the kernel has them now. */
export async function changeOps(
  plan: NodePlan,
  changes: PlanChanges,
  found: ReadonlyMap<VirtualServerKey, FoundVirtualServer>,
  sizes: SetSizes,
  context: DiffContext,
  yielder: Yielder,
): Promise<Transaction> {
  const tx = new Transaction(entryOps(plan, changes.entries, sizes));
  for (const { id, wanted } of changes.virtualServers) {
    diffVirtualServer(id, wanted, found.get(virtualServerKey(id)), context, tx);
    if (yielder.due) await yielder.yieldIfDue();
  }
  for (const { address, wanted } of changes.addresses) {
    tx.push({ kind: wanted ? 'bind-address' : 'unbind-address', address });
  }
  return tx;
}

export function ofFamily({ virtualServers, addresses, entries }: PlanChanges, family: IpFamily): PlanChanges {
  return {
    virtualServers: virtualServers.filter(({ id }) => familyOf(id.address) === family),
    addresses: addresses.filter(({ address }) => familyOf(address) === family),
    entries: entries.filter((entry) => entry.family === family),
  };
}

function* entryOps(plan: NodePlan, changes: readonly EntryChange[], sizes: SetSizes): IterableIterator<Op> {
  const grown = new Set<SetKey>();
  for (const { role, family, entry, wanted } of inSafeOrder(changes)) {
    const key = setKey(role, family);
    const entries = plan.entries(role, family);
    const set = plannedSet(role, family, entries.size);
    if (grown.has(key)) continue;
    if (set.maxEntries > (sizes.get(key) ?? set.maxEntries)) {
      // grow-set writes all entries of the set, so single entries need no operations of their own.
      sizes.set(key, set.maxEntries);
      grown.add(key);
      yield { kind: 'grow-set', set, entries: plannedEntries(entries) };
      continue;
    }
    yield { kind: wanted ? 'add-entry' : 'delete-entry', set, entry };
  }
}

/** Sorts changes so that no allowed client is refused: deny entries are added last and deleted first. */
function inSafeOrder<T extends { readonly role: string; readonly wanted: boolean }>(changes: readonly T[]): T[] {
  const rank = ({ role, wanted }: T): number => (role === 'LOAD-BALANCER-FW' ? (wanted ? 2 : 0) : 1);
  return changes.toSorted((a, b) => rank(a) - rank(b));
}
