import { type IpSetEntryKey, ipSetEntryKey } from '../../state/ip-set.ts';
import type { PlannedEntry } from '../service-plan.ts';

/** The entries of one set, by key. */
export type PlannedSetEntries = ReadonlyMap<IpSetEntryKey, PlannedEntry>;

interface TouchedEntry {
  readonly entry: PlannedEntry;
  /** Whether the entry was in the set at the last takeChanges(). */
  readonly before: boolean;
}

/** The wanted entries of a set. They are reference-counted: an entry is removed with its last reference. */
export class PlannedSet {
  readonly #entries = new Map<IpSetEntryKey, PlannedEntry>();
  /** The number of references beyond the first one, for the few entries that have several. */
  readonly #more = new Map<IpSetEntryKey, number>();
  readonly #touched = new Map<IpSetEntryKey, TouchedEntry>();

  get entries(): PlannedSetEntries {
    return this.#entries;
  }

  add(entry: PlannedEntry, recording: boolean): void {
    const key = ipSetEntryKey(entry.entry);
    const known = this.#entries.has(key);
    if (recording) this.#remember(key, entry, known);
    if (known) this.#more.set(key, (this.#more.get(key) ?? 0) + 1);
    else this.#entries.set(key, entry);
  }

  remove(entry: PlannedEntry, recording: boolean): void {
    const key = ipSetEntryKey(entry.entry);
    if (recording) this.#remember(key, entry, this.#entries.has(key));
    const more = this.#more.get(key) ?? 0;
    if (more === 0) this.#entries.delete(key);
    else if (more === 1) this.#more.delete(key);
    else this.#more.set(key, more - 1);
  }

  get hasChanges(): boolean {
    return this.#touched.size > 0;
  }

  /** Yields the entries added or removed since the last call. */
  *takeChanges(): Generator<PlannedEntry & { readonly wanted: boolean }, void> {
    for (const [key, { entry, before }] of this.#touched) {
      const wanted = this.#entries.has(key);
      if (before !== wanted) yield { ...entry, wanted };
    }
    this.#touched.clear();
  }

  forgetChanges(): void {
    // clear() allocates, also if the map is empty.
    if (this.hasChanges) this.#touched.clear();
  }

  #remember(key: IpSetEntryKey, entry: PlannedEntry, before: boolean): void {
    if (!this.#touched.has(key)) this.#touched.set(key, { entry, before });
  }
}
