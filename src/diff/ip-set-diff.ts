import { type IpSet, type IpSetEntry, type IpSetEntryKey, ipSetEntryKey } from '../state/ip-set.ts';
import type { Op } from '../state/op.ts';
import { STRIDE } from './stride.ts';

export interface HaveIpSet extends IpSet {
  readonly entries: readonly IpSetEntry[];
}

/** A kernel ipset that has one of our names, but another type or family. */
export interface WrongSet {
  readonly wanted: IpSet;
  readonly found: IpSet;
}

export interface IpSetDiff {
  readonly ops: readonly Op[];
  readonly wrong?: WrongSet;
}

/**
 * Returns the operations that change one set from `have` to the entries in `want`. An existing set is never shrunk or
 * recreated, because rules refer to it. A set of another type or family is returned as `wrong`.
 */
export function* diffIpSet(
  set: IpSet,
  want: ReadonlyMap<IpSetEntryKey, { readonly entry: IpSetEntry }>,
  have: HaveIpSet | undefined,
): Generator<void, IpSetDiff> {
  const ops: Op[] = [];
  if (have !== undefined && (have.type !== set.type || (set.type !== 'bitmap:port' && have.family !== set.family))) {
    return { ops, wrong: { wanted: set, found: have } };
  }
  if (have === undefined) ops.push({ kind: 'create-set', set });
  else if (have.maxEntries < set.maxEntries) {
    return { ops: [{ kind: 'grow-set', set, entries: Array.from(want.values(), ({ entry }) => entry) }] };
  }

  let count = 0;
  if (have !== undefined && have.entries.length === want.size) {
    // Usually the entries are equal. Checking that is much cheaper than building the map below.
    let same = true;
    for (const entry of have.entries) {
      same &&= want.has(ipSetEntryKey(entry));
      if (++count % STRIDE === 0) yield;
    }
    if (same) return { ops };
  }

  const surplus = new Map<IpSetEntryKey, IpSetEntry>();
  for (const entry of have?.entries ?? []) {
    surplus.set(ipSetEntryKey(entry), entry);
    if (++count % STRIDE === 0) yield;
  }
  for (const [key, { entry }] of want) {
    if (!surplus.delete(key)) ops.push({ kind: 'add-entry', set, entry });
    if (++count % STRIDE === 0) yield;
  }
  for (const entry of surplus.values()) ops.push({ kind: 'delete-entry', set, entry });
  return { ops };
}
