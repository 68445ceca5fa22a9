import type { Yielder } from '../base/yielder.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { NodePlan } from '../plan/node-plan.ts';
import type { Op } from '../state/op.ts';
import { Transaction } from '../state/transaction.ts';
import { virtualServerKey } from '../state/virtual-server.ts';
import { refresh, touchUnfinished } from './change-sync.ts';
import { denyOf } from './deny-guard.ts';
import { fullCheck } from './full-check.ts';
import { missingSets } from './missing-sets.ts';
import type { SyncParts } from './sync-parts.ts';
import type { SyncProgress } from './sync-progress.ts';

/** Programs all services in one transaction, and adopts the objects that an earlier run or kube-proxy left. */
export async function firstSync(parts: SyncParts, progress: SyncProgress, yielder: Yielder): Promise<void> {
  const { kernel, config, addresses, applier, clock, udp, written } = parts;
  const { plan } = parts.desired;
  // Listing the API objects may have taken long, and another process may have deleted kube-ipvs0 meanwhile.
  await kernel.ensureDevice();
  await addresses.findMarks();
  await addresses.read();
  // Create sets before the rules that refer to them, and the rules before any virtual server that they protect.
  await applier.apply(await missingSets(kernel, config.families, plan), progress, yielder);
  const protecting = await parts.rules.addFirst();
  // The check compares everything, so changes need not be recorded.
  plan.ignoreChanges();
  touchUnfinished(parts, progress);
  const triggerTimes = await refresh(parts, progress, yielder);
  plan.forgetChanges();
  const tx = new Transaction();
  for await (const batch of fullCheck(parts, progress, yielder)) tx.add(batch);
  progress.noteDeletions(tx);
  try {
    const [before, after] = protecting ? [NOTHING, tx] : aroundRules(tx, plan, kernel.mode);
    await applier.apply(before, progress, yielder);
    if (!protecting) await applier.note(await parts.rules.replaceOthers(), progress, yielder);
    await applier.apply(after, progress, yielder);
  } catch (error) {
    for (const { virtualServer } of tx.of('add-virtual-server')) written.add(virtualServerKey(virtualServer));
    throw error;
  }
  written.clear();
  progress.inForce(triggerTimes, clock.wallNow());
  progress.flowCleanUps.push(...(await udp.run(yielder)));
}

const NOTHING = new Transaction();

/**
 * Splits a transaction into what precedes and what follows the replacement of other rules, which serve until then:
 * virtual servers are added before, and nothing is removed. Those with source ranges wait for the rules that deny. In
 * the other modes everything precedes: in nftables mode it comes into force with the rules, by the transaction that replaces
 * the table; in iptables mode the replacement writes only what a virtual server already needs, so without it the rules that
 * deny would be missing in between.
 */
function aroundRules(
  tx: Transaction,
  plan: Pick<NodePlan, 'entries'>,
  mode: Kernel['mode'],
): readonly [Transaction, Transaction] {
  if (mode !== 'ipvs') return [tx, NOTHING];
  const additions: readonly Op[] = [
    ...tx.stage('add-sets'),
    ...tx.stage('add-servers').filter((op) => denyOf(plan, 'id' in op ? op.id : op.virtualServer) === undefined),
    ...tx.of('add-route'),
    ...tx.of('bind-address'),
  ];
  const early = new Set(additions);
  return [new Transaction(additions), tx.filter((op) => !early.has(op))];
}
