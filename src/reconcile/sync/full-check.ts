import type { KernelReader, ObservedIpSet } from '../../kernel/kernel.ts';
import { IP_FAMILIES, type IpFamily } from '../../base/ip.ts';
import type { Yielder } from '../../base/yielder.ts';
import { type Op, familyOfOp } from '../../state/op.ts';
import type { Transaction } from '../../state/transaction.ts';
import { type ComparisonOptions, compareAll } from '../compare/comparison.ts';
import { DENYING, type WrongSet, additionsTo } from '../compare/set-comparison.ts';
import { replaceWrongSets } from './set-replacement.ts';
import type { SyncParts } from './sync-parts.ts';
import type { SyncProgress } from './sync-progress.ts';

/**
 * Compares the kernel with the plan, in batches. It replaces sets of a wrong type itself. After the first sync, it runs
 * change syncs during long reads, and the caller applies each batch before the next one.
 *
 * Families in `progress.leftOut` are not compared. After the first sync, it adds those that cannot be read.
 */
export async function* fullCheck(
  parts: SyncParts,
  progress: SyncProgress,
  yielder: Yielder,
): AsyncGenerator<Transaction, void> {
  const { kernel, config, log, desired, schedule, applier, addresses } = parts;
  const { leftOut } = progress;
  const isFirst = progress.kind === 'first';
  schedule.fullCheckBegins();
  const sets = isFirst
    ? await kernel.getSets(undefined, new Set(leftOut.keys()))
    : await parts.awaitWhileServing(readSets(kernel, progress));
  const without: ReadonlySet<IpFamily> = new Set(leftOut.keys());
  // A change sync that fails would end the check.
  const isServing = !isFirst && without.size === 0;
  const replace = async (wrong: readonly WrongSet[]): Promise<readonly Op[]> => {
    await applier.note(await replaceWrongSets(kernel, config, desired.plan, wrong, log), progress, yielder);
    // While the set is wrong, these additions fail, which tells the deny guard which deny entries are missing.
    const denying = wrong.filter(({ role }) => role === DENYING);
    return denying.flatMap(({ role, wanted }) => additionsTo(wanted, role, desired.plan));
  };
  const options: ComparisonOptions = {
    kind: isFirst ? 'first' : 'full',
    without,
    unmarkedAddresses: isFirst ? addresses.unmarked : [],
    wait: (read) => (isServing ? parts.awaitWhileServing(read) : read),
    replace,
  };
  for await (const tx of compareAll(parts, options, sets, yielder)) {
    yield without.size === 0 ? tx : tx.filter((op) => !without.has(familyOfOp(op)));
  }
  schedule.fullCheckEnded();
}

/** Reads all sets. Leaves out a family that cannot be read, unless none can. */
async function readSets(kernel: KernelReader, { leftOut }: SyncProgress): Promise<ObservedIpSet[]> {
  try {
    return await kernel.getSets();
  } catch (error) {
    const sets: ObservedIpSet[] = [];
    for (const family of IP_FAMILIES) {
      const others = new Set(IP_FAMILIES.filter((each) => each !== family));
      try {
        for (const set of await kernel.getSets(undefined, others)) if (set.family === family) sets.push(set);
      } catch (reason) {
        leftOut.set(family, reason);
      }
    }
    if (leftOut.size === IP_FAMILIES.length) throw error;
    return sets;
  }
}
