import type { DrainLedger } from '../diff/drain.ts';
import { type HaveVirtualServer, diffVirtualServer } from '../diff/virtual-server-diff.ts';
import {
  type EntryChange,
  type NodePlan,
  type PlanChanges,
  type SetKey,
  plannedEntries,
  setKey,
} from '../plan/node-plan.ts';
import { plannedSet } from '../plan/set-names.ts';
import type { Op } from '../state/op.ts';
import { type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';
import type { Yielder } from '../base/yielder.ts';
import type { DrainingVirtualServer } from './draining.ts';
import { readVirtualServers } from './read-virtual-servers.ts';
import type { SyncParts } from './sync-parts.ts';
import type { SyncProgress } from './sync-progress.ts';

/** The operations of a change, and its virtual servers with draining real servers. */
export interface SyncOps {
  readonly ops: readonly Op[];
  readonly draining: readonly DrainingVirtualServer[];
}

/** The capacity (maxelem) of each set, as of the last full check or of a later change that enlarged the set. */
export type SetSizes = Map<SetKey, number>;

/** Returns the operations for a change. `have` contains its virtual servers as the kernel has them now. */
export async function changeOps(
  plan: NodePlan,
  changes: PlanChanges,
  have: ReadonlyMap<VirtualServerKey, HaveVirtualServer>,
  sizes: SetSizes,
  ledger: DrainLedger,
  now: number,
  yielder: Yielder,
): Promise<SyncOps> {
  const ops: Op[] = [];
  const draining: DrainingVirtualServer[] = [];
  for (const { id, want } of changes.virtualServers) {
    const servers = diffVirtualServer(id, want, have.get(virtualServerKey(id)), ledger, now, ops);
    if (servers > 0) draining.push({ id, servers });
    if (yielder.due) await yielder.yieldIfDue();
  }
  for (const { address, wanted } of changes.addresses) {
    ops.push({ kind: wanted ? 'bind-address' : 'unbind-address', address });
  }
  for (const op of entryOps(plan, changes.entries, sizes)) ops.push(op);
  return { ops, draining };
}

/** Applies cluster changes, retries failed operations and checks draining real servers. Reads only affected objects. */
export async function changeSync(parts: SyncParts, progress: SyncProgress, yielder: Yielder): Promise<void> {
  const { addresses, clock, udp } = parts;
  if (addresses.stale) await addresses.read();
  touchUnfinished(parts, progress);
  const triggerTimes = await refresh(parts, progress, yielder);
  await applyChanges(parts, progress, yielder);
  progress.inForce(triggerTimes, clock.wallNow());
  progress.flowCleanUps.push(...(await udp.run(yielder)));
}

/** Updates the plan. Returns the trigger times of endpoint changes, in milliseconds since 1970. */
export async function refresh(parts: SyncParts, progress: SyncProgress, yielder: Yielder): Promise<readonly number[]> {
  const { triggerTimes, udpChanged, healthChecksChanged } = await parts.desired.refresh(yielder);
  progress.healthChecksChanged = healthChecksChanged;
  if (udpChanged) parts.udp.noteAll();
  return triggerTimes;
}

/** Makes the sync read objects that are due for a retry or a draining check, even if their plan did not change. */
export function touchUnfinished(
  { desired, clock, retries, draining, schedule }: SyncParts,
  progress: SyncProgress,
): void {
  const now = clock.now();
  for (const op of retries.due(now)) {
    if (!touchTarget(desired.plan, op) && progress.kind === 'change') {
      // Operations on sets and routes are retried by the next full check.
      schedule.requireFullCheck(0);
      continue;
    }
    retries.begin(op);
    progress.retried.push(op);
  }
  for (const id of draining.takeDue(now)) desired.plan.touchVirtualServer(id);
}

/** Makes the next change sync check the object of `op`. Returns false for sets and routes, which it cannot check. */
function touchTarget(plan: NodePlan, op: Op): boolean {
  if ('virtualServer' in op) plan.touchVirtualServer(op.virtualServer);
  else if ('id' in op) plan.touchVirtualServer(op.id);
  else if ('address' in op) plan.touchAddress(op.address);
  else return false;
  return true;
}

async function applyChanges(parts: SyncParts, progress: SyncProgress, yielder: Yielder): Promise<void> {
  const { kernel, clock, gate, ledger, draining, sizes } = parts;
  const { plan } = parts.desired;
  const changes = plan.takeChanges();
  try {
    const ids = changes.virtualServers.map(({ id }) => id);
    const have = await readVirtualServers(kernel, ids);
    const now = clock.now();
    const sync = await changeOps(plan, changes, have, sizes, ledger, now, yielder);
    draining.update(ids, sync.draining, now);
    const ops = gate.pass(sync.ops, plan, 'change');
    gate.close(ids);
    await parts.applier.apply(ops, progress, yielder);
  } catch (error) {
    // The next sync must repeat these changes. A full check is not enough: if another process removed the address and
    // set entries of a virtual server, the check does not recognize it as ours and never deletes it.
    for (const { id } of changes.virtualServers) plan.touchVirtualServer(id);
    for (const { address } of changes.addresses) plan.touchAddress(address);
    throw error;
  }
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

/** Adds allow before deny entries, and deletes deny before allow entries, so that no allowed client is refused. */
export function inSafeOrder<T extends { readonly role: string; readonly wanted: boolean }>(changes: readonly T[]): T[] {
  const rank = ({ role, wanted }: T): number => (role === 'LOAD-BALANCER-FW' ? (wanted ? 2 : 0) : 1);
  return changes.toSorted((a, b) => rank(a) - rank(b));
}
