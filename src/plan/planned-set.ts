import { type IpSetEntryKey, ipSetEntryKey } from '../state/ip-set.ts';
import type { PlannedEntry } from './service-plan.ts';

/** Entries of one set. */
export type PlannedSetEntries = ReadonlyMap<IpSetEntryKey, PlannedEntry>;

interface TouchedEntry {
  readonly entry: PlannedEntry;
  /** Whether it was wanted when changes were last taken. */
  readonly before: boolean;
}

/** One set as all services want it. References are counted: an entry stays until the last one who wants it has left. */
export class PlannedSet {
  readonly #entries = new Map<IpSetEntryKey, PlannedEntry>();
  /** References beyond the first: hardly any entry has them. */
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

  /** What came or went since the last call. */
  *takeChanges(): Generator<PlannedEntry & { readonly wanted: boolean }, void> {
    for (const [key, { entry, before }] of this.#touched) {
      const wanted = this.#entries.has(key);
      if (before !== wanted) yield { ...entry, wanted };
    }
    this.#touched.clear();
  }

  forgetChanges(): void {
    this.#touched.clear();
  }

  #remember(key: IpSetEntryKey, entry: PlannedEntry, before: boolean): void {
    if (!this.#touched.has(key)) this.#touched.set(key, { entry, before });
  }
}
