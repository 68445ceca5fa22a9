import type { Yielder } from '../../base/yielder.ts';
import type { Op } from '../../state/op.ts';
import { errorText } from '../../base/text/error-text.ts';
import { familyLabel } from '../../base/ip.ts';
import { syncChanges } from './change-sync.ts';
import { fullCheck } from './full-check.ts';
import type { SyncParts } from './sync-parts.ts';
import type { SyncProgress } from './sync-progress.ts';

/**
 * Applies pending changes, compares the whole kernel state with the plan, and repairs the differences (drift). While
 * the kernel is known to agree with the plan, it compares only the rules. If one IP family cannot be read, it checks
 * the other one before it throws.
 */
export async function fullSync(parts: SyncParts, progress: SyncProgress, yielder: Yielder): Promise<void> {
  const { desired, schedule, rules, udp, verified } = parts;
  // Check the node first, because change syncs need kube-ipvs0 as well.
  const nodeAddresses = await parts.addresses.read();
  progress.node = await parts.nodeCheck.run(desired.plan, nodeAddresses, desired.nodeProblems());
  await desired.findMissingSchedulers();
  const failed = await syncChanges(parts, progress, yielder);
  if (failed === undefined && (await verified.stillHolds())) {
    schedule.fullCheckBegins();
    rules.check();
    schedule.fullCheckEnded();
  } else {
    await verified.checkBegins();
    if (!(await compare(parts, progress, yielder))) verified.checkFoundNothing();
    if (failed !== undefined && progress.leftOut.size === 0) throw failed.reason;
  }
  if (progress.node.deviceError !== undefined) throw progress.node.deviceError;
  progress.flowCleanUps.push(...(await udp.run(yielder)));
  for (const [family, reason] of progress.leftOut) {
    throw new Error(`${familyLabel(family)} was not checked: ${errorText(reason)}`, { cause: reason });
  }
}

/** Repairs all differences. Returns whether there were any. */
async function compare(parts: SyncParts, progress: SyncProgress, yielder: Yielder): Promise<boolean> {
  const { desired, gate, applier, rules } = parts;
  const { deviceError } = progress.node;
  let differs = false;
  let rulesChecked = false;
  for await (const found of fullCheck(parts, progress, yielder)) {
    differs ||= found.size > 0;
    // Without kube-ipvs0, no address can be bound. The reason is reported once, as the error of the sync.
    const bindable = deviceError === undefined ? found : found.filter(({ kind }) => kind !== 'bind-address');
    const tx = gate.pass(bindable, desired.plan, 'full');
    await applier.apply(tx, progress, yielder);
    for (const op of tx) if (isDrift(parts, op)) progress.drift.push(op);
    // The first batch creates all sets that the rules refer to.
    if (!rulesChecked) rules.check();
    rulesChecked = true;
    // A change that fails while a family cannot be read has its own report.
    await parts.runPendingChanges().catch((error: unknown) => {
      if (progress.leftOut.size === 0) throw error;
    });
  }
  return differs;
}

/**
 * Must be called after `op` was applied. Not drift: a failed operation, its retry, the deletion of a drained real
 * server, and the deletion of a twin set of ours.
 */
function isDrift({ retries }: SyncParts, op: Op): boolean {
  const ours = op.kind === 'destroy-set' || (op.kind === 'delete-real-server' && op.id.protocol === 'TCP');
  return !ours && retries.attempts(op) === 0;
}
