import { type IpSet, type IpSetEntry, type IpSetEntryKey, ipSetEntryKey } from '../state/ip-set.ts';
import type { Op } from '../state/op.ts';
import { STRIDE } from './stride.ts';

/**
 * Returns the operations that change one set from `found`, which has the same type, to the entries in `wanted`. An
 * existing set is never shrunk or recreated, because rules refer to it.
 */
export function* diffIpSet(
  set: IpSet,
  wanted: ReadonlyMap<IpSetEntryKey, { readonly entry: IpSetEntry }>,
  found: (IpSet & { readonly entries: readonly IpSetEntry[] }) | undefined,
): Generator<void, readonly Op[]> {
  const ops: Op[] = [];
  if (found === undefined) ops.push({ kind: 'create-set', set });
  else if (found.maxEntries < set.maxEntries) {
    return [{ kind: 'grow-set', set, entries: Array.from(wanted.values(), ({ entry }) => entry) }];
  }

  let count = 0;
  if (found?.entries.length === wanted.size) {
    // Usually the entries are equal. Checking that is much cheaper than building the map below.
    let same = true;
    for (const entry of found.entries) {
      same &&= wanted.has(ipSetEntryKey(entry));
      if (++count % STRIDE === 0) yield;
    }
    if (same) return ops;
  }

  const surplus = new Map<IpSetEntryKey, IpSetEntry>();
  for (const entry of found?.entries ?? []) {
    surplus.set(ipSetEntryKey(entry), entry);
    if (++count % STRIDE === 0) yield;
  }
  for (const [key, { entry }] of wanted) {
    if (!surplus.delete(key)) ops.push({ kind: 'add-entry', set, entry });
    if (++count % STRIDE === 0) yield;
  }
  for (const entry of surplus.values()) ops.push({ kind: 'delete-entry', set, entry });
  return ops;
}
