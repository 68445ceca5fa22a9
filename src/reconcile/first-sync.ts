import type { Yielder } from '../base/yielder.ts';
import { Transaction } from '../state/transaction.ts';
import { virtualServerKey } from '../state/virtual-server.ts';
import { refresh, touchUnfinished } from './change-sync.ts';
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
  // Create sets before the rules that refer to them, and the rules before any virtual server.
  await applier.apply(await missingSets(kernel, config.families, plan), progress, yielder);
  await parts.rules.ensureFirst();
  // The check compares everything, so changes need not be recorded.
  plan.ignoreChanges();
  touchUnfinished(parts, progress);
  const triggerTimes = await refresh(parts, progress, yielder);
  plan.forgetChanges();
  const tx = new Transaction();
  for await (const batch of fullCheck(parts, progress, yielder)) tx.add(batch);
  progress.noteDeletions(tx);
  try {
    await applier.apply(tx, progress, yielder);
  } catch (error) {
    for (const { virtualServer } of tx.of('add-virtual-server')) written.add(virtualServerKey(virtualServer));
    throw error;
  }
  written.clear();
  progress.inForce(triggerTimes, clock.wallNow());
  progress.flowCleanUps.push(...(await udp.run(yielder)));
}
