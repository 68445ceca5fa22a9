import type { FoundVirtualServer } from '../../diff/virtual-server-diff.ts';
import type { NodePlan, PlanChanges, VirtualServerChange } from '../../plan/node/node-plan.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import type { TriggerTime } from '../../model/trigger-time.ts';
import { type Op, virtualServerOf } from '../../state/op.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import { IP_FAMILIES } from '../../base/ip.ts';
import type { Yielder } from '../../base/yielder.ts';
import { changeOps, ofFamily } from './change-ops.ts';
import { asWantedNow, partsOf } from './change-parts.ts';
import { failedEntries } from './failed-entries.ts';
import type { KnownServers } from '../../diff/known-servers.ts';
import { readVirtualServers } from '../compare/read-virtual-servers.ts';
import type { SyncParts } from './sync-parts.ts';
import type { SyncProgress } from './sync-progress.ts';

/** The kernel's answers if an object that was assumed does not exist. */
const MISSING: ReadonlySet<string> = new Set(['ENOENT', 'ESRCH']);

/** Why changes were not applied. */
interface Failed {
  readonly reason: unknown;
}

/** Applies cluster changes, retries failed operations and checks draining real servers. Reads only affected objects. */
export async function changeSync(parts: SyncParts, progress: SyncProgress, yielder: Yielder): Promise<void> {
  const failed = await syncChanges(parts, progress, yielder);
  if (failed !== undefined) throw failed.reason;
}

/**
 * Like changeSync, but returns the reason if the changes of an IP family could not be applied: the next sync repeats
 * these.
 */
export async function syncChanges(
  parts: SyncParts,
  progress: SyncProgress,
  yielder: Yielder,
): Promise<Failed | undefined> {
  const { addresses, clock, udp } = parts;
  if (addresses.stale) await addresses.read();
  touchUnfinished(parts, progress);
  const triggerTimes = await refresh(parts, progress, yielder);
  const failed = await applyChanges(parts, progress, yielder);
  if (failed !== undefined) return failed;
  if (progress.stopped === undefined) progress.inForce(triggerTimes, clock.wallNow());
  progress.flowCleanUps.push(...(await udp.run(yielder)));
  return undefined;
}

/**
 * Updates the plan. Returns the trigger times of endpoint changes since the start: the delay of an earlier change is
 * not due to this program.
 */
export async function refresh(
  parts: SyncParts,
  progress: SyncProgress,
  yielder: Yielder,
): Promise<readonly TriggerTime[]> {
  const { triggerTimes, udpChanged, healthChecksChanged } = await parts.desired.refresh(yielder);
  progress.healthChecksChanged = healthChecksChanged;
  if (udpChanged) parts.udp.noteAll();
  // Slices have wall times. The wall clock may have been set since the start.
  const startedAt = parts.clock.wallNow() - (parts.clock.now() - parts.startedAt);
  return triggerTimes.filter(({ time }) => time > startedAt);
}

/**
 * Makes the sync read objects that are due for a retry or a draining check, even if their plan did not change. Operations
 * on sets and routes are retried by a full check. It then retries all that is due: it writes sets before the virtual
 * servers that need them, which a change sync would serve without their entries.
 */
export function touchUnfinished(
  { desired: { plan }, clock, retries, ledger, schedule }: SyncParts,
  progress: SyncProgress,
): void {
  const now = clock.now();
  const due = retries.due(now);
  const areChecked = due.every(isOfChangeSync);
  if (!areChecked && progress.kind === 'change') schedule.requireFullCheck(0);
  else {
    for (const op of due) {
      if (areChecked || isOfUnplanned(plan, op)) touchTarget(plan, op);
      retries.begin(op);
      progress.retried.push(op);
    }
  }
  for (const id of ledger.takeDue(now)) plan.touchVirtualServer(id);
}

/** Whether a change sync can check the object of `op`. */
function isOfChangeSync(op: Op): boolean {
  return virtualServerOf(op) !== undefined || 'address' in op;
}

/**
 * Whether the operation is on a virtual server that is not planned. A full check may not recognize it as ours,
 * because the addition that failed may have been of what marks it.
 */
function isOfUnplanned(plan: NodePlan, op: Op): boolean {
  const id = virtualServerOf(op);
  return id !== undefined && plan.virtualServer(virtualServerKey(id)) === undefined;
}

/** Makes the next change sync check the object of `op`. */
function touchTarget(plan: NodePlan, op: Op): void {
  const id = virtualServerOf(op);
  if (id !== undefined) plan.touchVirtualServer(id);
  else if ('address' in op) plan.touchAddress(op.address);
}

/**
 * Applies the pending changes, large ones in parts, between which it serves changes that came meanwhile. After a failure,
 * the next sync must repeat the changes that were not applied.
 */
async function applyChanges(parts: SyncParts, progress: SyncProgress, yielder: Yielder): Promise<Failed | undefined> {
  const { known, desired, kernel } = parts;
  const { plan } = desired;
  const all = partsOf(plan.takeChanges(), plan, kernel.mode, (change) => known.cost(change));
  for (const each of all) known.hold(idsOf(each));
  let failed: Failed | undefined;
  for (const [at, part] of all.entries()) {
    known.release(idsOf(part));
    if (failed !== undefined || progress.stopped !== undefined) {
      touchAll(plan, part);
      continue;
    }
    failed = await applyEachFamily(parts, at === 0 ? part : asWantedNow(part, plan), progress, yielder);
    const goesOn = failed === undefined && progress.stopped === undefined && at < all.length - 1;
    if (goesOn) failed = await failureOf(parts.runPendingChanges());
  }
  return failed;
}

function idsOf({ virtualServers }: PlanChanges): readonly VirtualServerId[] {
  return virtualServers.map(({ id }) => id);
}

/** If the kernel cannot be read, it tries each IP family alone: one must not hold up the other. */
async function applyEachFamily(
  parts: SyncParts,
  changes: PlanChanges,
  progress: SyncProgress,
  yielder: Yielder,
): Promise<Failed | undefined> {
  const failed = await failureOf(applyPart(parts, changes, progress, yielder));
  if (failed === undefined) return undefined;
  const families = IP_FAMILIES.map((family) => ofFamily(changes, family)).filter(isSome);
  for (const part of families) {
    const isApplied = families.length > 1 && (await failureOf(applyPart(parts, part, progress, yielder))) === undefined;
    if (!isApplied) touchAll(parts.desired.plan, part);
  }
  return failed;
}

/**
 * Makes the next sync repeat these changes. A full check is not enough: if another process removed the address and set
 * entries of a virtual server, the check does not recognize it as ours and never deletes it.
 */
function touchAll(plan: NodePlan, { virtualServers, addresses }: PlanChanges): void {
  for (const { id } of virtualServers) plan.touchVirtualServer(id);
  for (const { address } of addresses) plan.touchAddress(address);
}

async function failureOf(work: Promise<void>): Promise<Failed | undefined> {
  return await work.then(
    () => undefined,
    (reason: unknown) => ({ reason }),
  );
}

function isSome({ virtualServers, addresses, entries }: PlanChanges): boolean {
  return virtualServers.length + addresses.length + entries.length > 0;
}

/** Returns what the kernel has of virtual servers before their changes. Those in `assumed` were not read. */
async function findChanged(kernel: KernelReader, known: KnownServers, { virtualServers }: PlanChanges) {
  const assumed = new Map<VirtualServerKey, FoundVirtualServer>();
  const unknown: VirtualServerChange[] = [];
  for (const change of virtualServers) {
    const before = known.find(change);
    if (before === undefined) unknown.push(change);
    else assumed.set(virtualServerKey(change.id), before);
  }
  const ids = unknown.map(({ id, wanted }) => wanted?.virtualServer ?? id);
  const expected = new Map(unknown.map(({ id, wanted }) => [virtualServerKey(id), wanted?.realServers ?? []]));
  const read = await readVirtualServers(kernel, ids, expected);
  known.note(read);
  return { assumed, found: new Map([...assumed, ...read]) };
}

async function applyPart(
  parts: SyncParts,
  changes: PlanChanges,
  progress: SyncProgress,
  yielder: Yielder,
): Promise<void> {
  const { kernel, clock, gate, order, ledger, known, retries, sizes, applier, desired } = parts;
  const { plan } = desired;
  const ids = idsOf(changes);
  const { assumed, found } = await findChanged(kernel, known, changes);
  const tx = await changeOps(plan, changes, found, sizes, { order, ledger, now: clock.now() }, yielder);
  tx.add(failedEntries(plan, retries, changes));
  const passed = gate.pass(tx, plan, 'change');
  gate.close(ids);
  const wrong = new Set<VirtualServerKey>();
  await applier.apply(passed, progress, yielder, ({ op, code }) => {
    const id = virtualServerOf(op);
    if (id === undefined || !MISSING.has(code) || !assumed.has(virtualServerKey(id))) return false;
    wrong.add(virtualServerKey(id));
    return true;
  });
  if (wrong.size === 0) return;
  const again = changes.virtualServers.filter(({ id }) => wrong.has(virtualServerKey(id)));
  const virtualServers = again.map((change) => ({ ...change, before: 'unknown' as const }));
  await applyPart(parts, { virtualServers, addresses: [], entries: [] }, progress, yielder);
}
