import { type IpSet, type IpSetEntry, formatIpSetEntry } from '../state/ip-set.ts';
import type { Op } from '../state/op.ts';
import { STRIDE } from './stride.ts';

export interface HaveIpSet extends IpSet {
  readonly entries: readonly IpSetEntry[];
}

/** A set in the kernel that has our name but cannot hold our entries. */
export interface WrongSet {
  readonly wanted: IpSet;
  readonly found: IpSet;
}

export interface IpSetDiff {
  readonly ops: readonly Op[];
  readonly wrong?: WrongSet;
}

/**
 * What brings one set from `have` to the wanted entries (with their text form, each once). A set that exists is never made
 * smaller or made anew: rules refer to it. One of another type is left alone and reported. In steps: a set may have an entry
 * for each service.
 */
export function* diffIpSet(
  set: IpSet,
  want: Iterable<readonly [text: string, entry: IpSetEntry]>,
  have: HaveIpSet | undefined,
): Generator<void, IpSetDiff> {
  const ops: Op[] = [];
  if (have !== undefined && (have.type !== set.type || (set.type !== 'bitmap:port' && have.family !== set.family))) {
    return { ops, wrong: { wanted: set, found: have } };
  }
  if (have === undefined) ops.push({ kind: 'create-set', set });
  else if (have.maxEntries < set.maxEntries) {
    return { ops: [{ kind: 'grow-set', set, entries: Array.from(want, ([, entry]) => entry) }] };
  }

  let count = 0;
  const surplus = new Map<string, IpSetEntry>();
  for (const entry of have?.entries ?? []) {
    surplus.set(formatIpSetEntry(entry), entry);
    if (++count % STRIDE === 0) yield;
  }
  for (const [text, entry] of want) {
    if (!surplus.delete(text)) ops.push({ kind: 'add-entry', set, entry });
    if (++count % STRIDE === 0) yield;
  }
  for (const entry of surplus.values()) ops.push({ kind: 'delete-entry', set, entry });
  return { ops };
}
