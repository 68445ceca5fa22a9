import type { Yielder } from '../base/yielder.ts';
import type { Op } from '../state/op.ts';
import { refresh, touchUnfinished } from './change-sync.ts';
import { checkKernel } from './full-sync.ts';
import { missingSets } from './missing-sets.ts';
import type { SyncParts } from './sync-parts.ts';
import type { SyncProgress } from './sync-progress.ts';

/** Programs all services in one transaction, and adopts the objects that an earlier run or kube-proxy left. */
export async function firstSync(parts: SyncParts, progress: SyncProgress, yielder: Yielder): Promise<void> {
  const { kernel, config, addresses, applier, clock } = parts;
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
  // The check does not recognize these as ours if the kernel refused their addresses and set entries.
  for (const id of parts.bootstrap.written) plan.touchVirtualServer(id);
  const ops: Op[] = [];
  for await (const batch of checkKernel(parts, progress, yielder)) for (const op of batch.ops) ops.push(op);
  progress.noteDeletions(ops);
  await applier.apply(ops, progress, yielder);
  progress.inForce(triggerTimes, clock.wallNow());
}
