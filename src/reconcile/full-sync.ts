import type { Yielder } from '../base/yielder.ts';
import type { Op } from '../state/op.ts';
import { changeSync } from './change-sync.ts';
import { type CheckBatch, fullCheck } from './full-check.ts';
import { replaceWrongSets } from './set-replacement.ts';
import type { SyncParts } from './sync-parts.ts';
import type { SyncProgress } from './sync-progress.ts';

/** Applies pending changes, compares the whole kernel state with the plan, and repairs the differences (drift). */
export async function fullSync(parts: SyncParts, progress: SyncProgress, yielder: Yielder): Promise<void> {
  const { desired, gate, applier, rules } = parts;
  // Check the node first, because change syncs need kube-ipvs0 as well.
  progress.node = await parts.nodeCheck.run(desired.plan, await parts.addresses.read());
  await changeSync(parts, progress, yielder);
  const { deviceError } = progress.node;
  let rulesChecked = false;
  for await (const { ops: found, virtualServers } of checkKernel(parts, progress, yielder)) {
    // Without kube-ipvs0 all addresses fail for the same reason, which is reported once, as the error of the sync.
    const bindable = deviceError === undefined ? found : found.filter(({ kind }) => kind !== 'bind-address');
    const ops = gate.pass(bindable, desired.plan, 'full');
    await applier.apply(ops, progress, yielder);
    for (const op of ops) if (isDrift(parts, op)) progress.drift.push(op);
    // By now all sets that the rules refer to exist.
    if (virtualServers !== undefined && !rulesChecked) rules.check();
    rulesChecked ||= virtualServers !== undefined;
    await parts.runPendingChanges();
  }
  if (deviceError !== undefined) throw deviceError;
}

/** Yields the batches of a full check. Records set sizes and draining real servers; replaces sets of a wrong type. */
export async function* checkKernel(
  parts: SyncParts,
  progress: SyncProgress,
  yielder: Yielder,
): AsyncGenerator<CheckBatch, void> {
  const { kernel, config, clock, log, schedule, draining, applier, addresses, sizes } = parts;
  const { plan } = parts.desired;
  const first = progress.kind === 'first';
  schedule.fullCheckBegins();
  for await (const batch of fullCheck({ ...parts, plan, yielder, first, unmarked: first && addresses.unmarked })) {
    const { sets, virtualServers } = batch;
    if (sets !== undefined) {
      for (const [key, size] of sets.sizes) sizes.set(key, size);
      const failures = await replaceWrongSets(kernel, config, plan, sets.wrong, log);
      await applier.note(failures, progress, yielder);
    }
    if (virtualServers !== undefined) draining.update(virtualServers.ids, virtualServers.draining, clock.now());
    yield batch;
  }
  schedule.fullCheckEnded();
}

/** Must be called after `op` was applied. Failed operations, their retries and the end of draining are not drift. */
function isDrift({ retries }: SyncParts, op: Op): boolean {
  const drained = op.kind === 'delete-real-server' && op.id.protocol === 'TCP';
  return !drained && retries.attempts(op) === 0;
}
