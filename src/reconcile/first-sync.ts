import type { IpFamily } from '../base/ip.ts';
import type { Yielder } from '../base/yielder.ts';
import type { Outcome } from '../state/outcome.ts';
import { Transaction } from '../state/transaction.ts';
import { virtualServerKey } from '../state/virtual-server.ts';
import { refresh, touchUnfinished } from './change-sync.ts';
import { denyOf } from './deny-guard.ts';
import { fullCheck } from './full-check.ts';
import { missingSets } from './missing-sets.ts';
import type { SyncParts } from './sync-parts.ts';
import type { SyncProgress } from './sync-progress.ts';

/**
 * Programs all services in one transaction, and adopts the objects that an earlier run or kube-proxy left. If the rules of
 * one IP family can be neither read nor written, the other family is programmed nevertheless, before this throws.
 */
export async function firstSync(parts: SyncParts, progress: SyncProgress, yielder: Yielder): Promise<void> {
  const { kernel, addresses, applier, clock, udp, written } = parts;
  const { plan } = parts.desired;
  // Listing the API objects may have taken long, and another process may have deleted kube-ipvs0 meanwhile.
  await kernel.ensureDevice();
  await addresses.findMarks();
  await addresses.read();
  const { families, protecting } = await addRules(parts, progress, yielder);
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
    else await applyAroundRules(parts, families, tx, progress, yielder);
    progress.flowCleanUps.push(...(await udp.run(yielder)));
    for (const error of progress.leftOut.values()) throw error;
  } catch (error) {
    for (const { virtualServer } of tx.of('add-virtual-server')) written.add(virtualServerKey(virtualServer));
    throw error;
  }
  written.clear();
  progress.inForce(triggerTimes, clock.wallNow());
}

interface RulesAdded {
  /** Those whose rules could be read and, unless they are those of another program, written. */
  readonly families: readonly IpFamily[];
  /** Whether the rules of these families are in force. */
  readonly protecting: boolean;
}

/**
 * Creates sets before the rules that refer to them, and the rules before any virtual server that they protect. Families without
 * rules are left out; throws if no family has rules.
 */
async function addRules(
  { kernel, config, applier, rules, desired: { plan } }: SyncParts,
  progress: SyncProgress,
  yielder: Yielder,
): Promise<RulesAdded> {
  const families: IpFamily[] = [];
  let protecting = true;
  for (const family of config.families) {
    try {
      await applier.apply(await missingSets(kernel, [family], plan), progress, yielder);
      if (!(await rules.addFirst(family))) protecting = false;
      families.push(family);
    } catch (error) {
      progress.leftOut.set(family, error);
    }
  }
  if (families.length === 0) for (const error of progress.leftOut.values()) throw error;
  return { families, protecting };
}

/** Throws if operations were not tried, so that the first sync is retried: until then, nothing of another program may end. */
function requireTried({ stopped }: Outcome): void {
  if (stopped !== undefined) throw new Error(stopped);
}

/**
 * Applies a transaction while the rules of another program serve, and replaces these in between. Virtual servers come
 * before, and nothing is removed until the rules are replaced. Virtual servers with source ranges come after the rules that
 * deny and before the rules of table nat: their address is bound by then, so once nothing translates it, the node would
 * refuse connections to it. In
 * the other modes everything comes before: in nftables mode it comes into force with the rules, by the transaction that
 * replaces the table; in iptables mode the replacement writes only what a virtual server already needs, so without it the
 * rules that deny would be missing in between.
 */
async function applyAroundRules(
  { kernel, desired: { plan }, applier, rules }: SyncParts,
  families: readonly IpFamily[],
  tx: Transaction,
  progress: SyncProgress,
  yielder: Yielder,
): Promise<void> {
  if (kernel.mode !== 'ipvs') {
    requireTried(await applier.apply(tx, progress, yielder));
    await applier.note(await rules.replaceOthers(families), progress, yielder);
    return;
  }
  const servers = Map.groupBy(
    tx.stage('add-servers'),
    (op) => denyOf(plan, 'id' in op ? op.id : op.virtualServer) !== undefined,
  );
  const restricted = new Transaction(servers.get(true));
  const before = new Transaction([
    ...tx.stage('add-sets'),
    ...(servers.get(false) ?? []),
    ...tx.of('add-route'),
    ...tx.of('bind-address'),
  ]);
  requireTried(await applier.apply(before, progress, yielder));
  if (restricted.size > 0) await rules.replaceDenying(families);
  requireTried(await applier.apply(restricted, progress, yielder));
  await applier.note(await rules.replaceOthers(families), progress, yielder);
  const done = new Set([...before, ...restricted]);
  const rest = tx.filter((op) => !done.has(op));
  await applier.apply(rest, progress, yielder);
}
