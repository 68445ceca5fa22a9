import type { DrainLedger } from '../diff/drain.ts';
import { realServerAdditions } from '../diff/real-server-additions.ts';
import { type HaveVirtualServer, diffVirtualServer } from '../diff/virtual-server-diff.ts';
import { familyOf } from '../net/ip.ts';
import {
  type EntryChange,
  type NodePlan,
  type PlanChanges,
  type SetKey,
  type VirtualServerChange,
  plannedEntries,
  setKey,
} from '../plan/node-plan.ts';
import { plannedSet } from '../plan/set-names.ts';
import { ipSetEntryKey } from '../state/ip-set.ts';
import type { Op } from '../state/op.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';
import type { Breather } from '../net/breather.ts';
import type { DrainingVirtualServer } from './draining.ts';

/** Operations, and where real servers still drain. */
export interface SyncOps {
  readonly ops: readonly Op[];
  readonly draining: readonly DrainingVirtualServer[];
}

/** How many entries each set takes, as the last full check left it or a change made it. */
export type SetSizes = Map<SetKey, number>;

/** What a change demands, against the virtual servers just read. Its cost is that of the change. */
export async function changeOps(
  plan: NodePlan,
  changes: PlanChanges,
  have: ReadonlyMap<VirtualServerKey, HaveVirtualServer>,
  sizes: SetSizes,
  ledger: DrainLedger,
  now: number,
  breather: Breather,
): Promise<SyncOps> {
  const ops: Op[] = [];
  const draining: DrainingVirtualServer[] = [];
  for (const { id, want } of changes.virtualServers) {
    const servers = diffVirtualServer(id, want, have.get(virtualServerKey(id)), ledger, now, ops);
    if (servers > 0) draining.push({ id, servers });
    if (breather.due) await breather.breathe();
  }
  for (const { address, wanted } of changes.addresses) {
    ops.push({ kind: wanted ? 'bind-address' : 'unbind-address', address });
  }
  const denies = deniesOfAdded(plan, ops, changes.entries);
  for (const op of entryOps(plan, [...denies, ...changes.entries], sizes)) ops.push(op);
  return { ops, draining };
}

/** Changes of virtual servers, parted. */
interface PartedChanges {
  /** What needs no knowledge of the kernel. */
  readonly additions: readonly Op[];
  /** Virtual servers that must be read first. */
  readonly others: readonly VirtualServerChange[];
}

/**
 * A new endpoint, the most frequent change of all, is written without a look at the kernel: its cost is that of one message. Should
 * the virtual server not be there the kernel says so, and it is read then. Where real servers drain, the new one may be one of them.
 */
export function withoutReading(
  changes: readonly VirtualServerChange[],
  draining: { has(id: VirtualServerId): boolean },
): PartedChanges {
  const additions: Op[] = [];
  const others: VirtualServerChange[] = [];
  for (const change of changes) {
    const { id, before, want } = change;
    const ops = before && want && !draining.has(id) ? realServerAdditions(id, before, want) : undefined;
    if (ops === undefined) others.push(change);
    else for (const op of ops) additions.push(op);
  }
  return { additions, others };
}

/** The denies of virtual servers that are added. */
export function denyOps(plan: NodePlan, ops: readonly Op[], sizes: SetSizes): Iterable<Op> {
  return entryOps(plan, deniesOfAdded(plan, ops, []), sizes);
}

/**
 * Whoever adds a virtual server with source ranges writes its deny in the same transaction, even if that should be there: the write may
 * have failed before, and the virtual server been withheld for it.
 */
function deniesOfAdded(plan: NodePlan, ops: readonly Op[], changes: readonly EntryChange[]): EntryChange[] {
  const written = new Set(changes.map(({ entry }) => entry));
  const found: EntryChange[] = [];
  for (const op of ops) {
    if (op.kind !== 'add-virtual-server') continue;
    const { address, port, protocol } = op.virtualServer;
    const key = ipSetEntryKey({ type: 'hash:ip,port', address, port, protocol });
    const deny = plan.entries('LOAD-BALANCER-FW', familyOf(address)).get(key);
    if (deny !== undefined && !written.has(deny.entry)) found.push({ ...deny, wanted: true });
  }
  return found;
}

function* entryOps(plan: NodePlan, changes: readonly EntryChange[], sizes: SetSizes): IterableIterator<Op> {
  const grown = new Set<SetKey>();
  for (const { role, family, entry, wanted } of inSafeOrder(changes)) {
    const key = setKey(role, family);
    const entries = plan.entries(role, family);
    const set = plannedSet(role, family, entries.size);
    if (grown.has(key)) continue;
    if (set.maxEntries > (sizes.get(key) ?? set.maxEntries)) {
      // The larger twin is filled with all that is wanted: single entries need no operation of their own.
      sizes.set(key, set.maxEntries);
      grown.add(key);
      yield { kind: 'grow-set', set, entries: plannedEntries(entries) };
      continue;
    }
    yield { kind: wanted ? 'add-entry' : 'delete-entry', set, entry };
  }
}

/** Who is let in is written before who is kept out, and the other way round when both go: no allowed client is ever refused. */
export function inSafeOrder<T extends { readonly role: string; readonly wanted: boolean }>(changes: readonly T[]): T[] {
  const rank = ({ role, wanted }: T): number => (role === 'LOAD-BALANCER-FW' ? (wanted ? 2 : 0) : 1);
  return changes.toSorted((a, b) => rank(a) - rank(b));
}
