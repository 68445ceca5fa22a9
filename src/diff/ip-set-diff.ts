import { type IpSet, type IpSetEntry, formatIpSetEntry } from '../state/ip-set.ts';
import type { Op } from '../state/op.ts';

export interface HaveIpSet extends IpSet {
  readonly entries: readonly IpSetEntry[];
}

/** A set in the kernel that has our name but cannot hold our entries. */
export interface WrongSet {
  readonly wanted: IpSet;
  readonly found: IpSet;
}

/**
 * What brings one set from `have` to the wanted entries (by their text form). A set that exists is never made smaller or
 * made anew: rules refer to it. One of another type is left alone and reported.
 */
export function diffIpSet(
  set: IpSet,
  want: ReadonlyMap<string, IpSetEntry>,
  have: HaveIpSet | undefined,
): { readonly ops: readonly Op[]; readonly wrong?: WrongSet } {
  const ops: Op[] = [];
  if (have !== undefined && (have.type !== set.type || (set.type !== 'bitmap:port' && have.family !== set.family))) {
    return { ops, wrong: { wanted: set, found: have } };
  }
  if (have === undefined) ops.push({ kind: 'create-set', set });
  else if (have.maxEntries < set.maxEntries) return { ops: [{ kind: 'grow-set', set, entries: [...want.values()] }] };

  const surplus = new Map((have?.entries ?? []).map((entry) => [formatIpSetEntry(entry), entry]));
  for (const [text, entry] of want) {
    if (!surplus.delete(text)) ops.push({ kind: 'add-entry', set, entry });
  }
  for (const entry of surplus.values()) ops.push({ kind: 'delete-entry', set, entry });
  return { ops };
}
