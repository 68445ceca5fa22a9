import { MODES } from '../../base/proxy-mode.ts';
import type { IpFamily } from '../../base/ip.ts';
import type { Yielder } from '../../base/yielder.ts';
import { familyOfOp } from '../../state/op.ts';
import type { Outcome } from '../../state/outcome.ts';
import { Transaction } from '../../state/transaction.ts';
import { virtualServerKey } from '../../state/virtual-server.ts';
import { refresh, touchUnfinished } from './change-sync.ts';
import { denyOf } from '../guard/deny-guard.ts';
import { fullCheck } from './full-check.ts';
import { missingSets } from './missing-sets.ts';
import type { SyncParts } from './sync-parts.ts';
import type { SyncProgress } from './sync-progress.ts';

/**
 * Programs all services in one transaction, and adopts the objects that an earlier run or kube-proxy left. If the rules of
 * one IP family cannot be read, written or replaced, the other family is programmed nevertheless, before this throws.
 */
export async function firstSync(parts: SyncParts, progress: SyncProgress, yielder: Yielder): Promise<void> {
  const { kernel, addresses, applier, clock, udp, written } = parts;
  const { plan } = parts.desired;
  // Listing the API objects may have taken long, and another process may have deleted kube-ipvs0 meanwhile.
  await kernel.ensureDevice();
  await addresses.findMarks();
  await addresses.read();
  const protecting = await addRules(parts, progress, yielder);
  // The check compares everything, so changes need not be recorded.
  plan.ignoreChanges();
  touchUnfinished(parts, progress);
  const triggerTimes = await refresh(parts, progress, yielder);
  plan.forgetChanges();
  const tx = new Transaction();
  for await (const batch of fullCheck(parts, progress, yielder)) tx.add(batch);
  progress.noteDeletions(tx);
  try {
    if (protecting) requireTried(await applier.apply(tx, progress, yielder));
    else await applyAroundRules(parts, tx, progress, yielder);
    progress.flowCleanUps.push(...(await udp.run(yielder)));
    for (const error of progress.leftOut.values()) throw error;
  } catch (error) {
    for (const { virtualServer } of tx.of('add-virtual-server')) written.add(virtualServerKey(virtualServer));
    // A virtual server whose deletion was refused may have lost what marks it as ours.
    for (const { id } of tx.of('delete-virtual-server')) written.add(virtualServerKey(id));
    throw error;
  }
  written.clear();
  progress.inForce(triggerTimes, clock.wallNow());
}

/**
 * Creates sets before the rules that refer to them, and the rules before any virtual server that they protect. Families without
 * rules are left out; throws if no family has rules. Returns whether the rules of all others are in force; if not, those of
 * another program are.
 */
async function addRules(
  { kernel, config, applier, rules, desired: { plan } }: SyncParts,
  progress: SyncProgress,
  yielder: Yielder,
): Promise<boolean> {
  let protecting = true;
  await eachFamily(config.families, progress, async (family) => {
    await applier.apply(await missingSets(kernel, [family], plan), progress, yielder);
    if (!(await rules.addFirst(family))) protecting = false;
  });
  const { leftOut } = progress;
  if (leftOut.size === config.families.length) for (const error of leftOut.values()) throw error;
  return protecting;
}

/** Calls `work` for each family that is not left out. A family for which it fails is left out from then on. */
async function eachFamily(
  families: readonly IpFamily[],
  { leftOut }: SyncProgress,
  work: (family: IpFamily) => Promise<void>,
): Promise<void> {
  for (const family of families) {
    if (leftOut.has(family)) continue;
    try {
      await work(family);
    } catch (error) {
      leftOut.set(family, error);
    }
  }
}

/** Throws if operations were not tried, so that the first sync is retried: until then, nothing of another program may end. */
function requireTried({ stopped }: Outcome): void {
  if (stopped !== undefined) throw new Error(stopped);
}

/**
 * Applies a transaction while the rules of another program serve, and replaces these in between. Virtual servers come
 * before, and nothing of an IP family is removed until its rules are replaced. Virtual servers with source ranges come
 * after the rules that deny and before the rules of table nat: their address is bound by then, so once nothing translates
 * it, the node would refuse connections to it. In the other modes everything comes before: in nftables mode it comes into
 * force with the rules, by the transaction that replaces the table; in iptables mode the replacement writes only what a
 * virtual server already needs, so without it the rules that deny would be missing in between.
 */
async function applyAroundRules(
  { kernel, config: { families }, desired: { plan }, applier, rules }: SyncParts,
  tx: Transaction,
  progress: SyncProgress,
  yielder: Yielder,
): Promise<void> {
  const replaceOthers = async (family: IpFamily): Promise<void> =>
    await applier.note(await rules.replaceOthers(family), progress, yielder);
  if (MODES[kernel.mode].appliesTogether) {
    await eachFamily(families, progress, async (family) => {
      await yielder.yieldIfDue();
      const ofFamily = tx.filter((op) => familyOfOp(op) === family);
      requireTried(await applier.apply(ofFamily, progress, yielder));
      await replaceOthers(family);
    });
    return;
  }
  const servers = Map.groupBy(
    tx.stage('add-servers'),
    (op) => denyOf(plan, 'id' in op ? op.id : op.virtualServer) !== undefined,
  );
  const before = new Transaction([
    ...tx.stage('add-sets'),
    ...(servers.get(false) ?? []),
    ...tx.of('add-route'),
    ...tx.of('bind-address'),
  ]);
  requireTried(await applier.apply(before, progress, yielder));
  const waiting = servers.get(true) ?? [];
  if (waiting.length > 0) await eachFamily(families, progress, (family) => rules.replaceDenying(family));
  const restricted = new Transaction(waiting.filter((op) => !progress.leftOut.has(familyOfOp(op))));
  requireTried(await applier.apply(restricted, progress, yielder));
  await eachFamily(families, progress, replaceOthers);
  const done = new Set([...before, ...restricted]);
  const rest = tx.filter((op) => !done.has(op) && !progress.leftOut.has(familyOfOp(op)));
  await applier.apply(rest, progress, yielder);
}
