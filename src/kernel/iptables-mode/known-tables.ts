import type { IpFamily } from '../../base/ip.ts';
import { parseSave, type SavedTables } from '../iptables/iptables-save.ts';
import type { OwnTransactions } from '../own-transactions.ts';
import type { IptablesPort } from './iptables-port.ts';
import type { ProxyState } from './proxy-state.ts';
import { readState } from './state-reader.ts';
import type { TableCheckResult } from './table-check.ts';

/** How old a reading may be for a full check, whose parts share one. */
const MAX_AGE_MS = 2_000;

/** The last complete reading of the tables, and what was written since. */
export interface TablesReading {
  readonly state: ProxyState;
  /** When iptables-save was started (performance.now()). */
  readonly began: number;
  /** When the reading was last known to be current. */
  at: number;
  /** The generation of nf_tables before the rules were read; undefined if it is not known. */
  readonly generation: number | undefined;
  /** The rules as read; undefined once they have been compared with the wanted ones. */
  saved: SavedTables | undefined;
  checked?: TableCheckResult;
  /** Whether the tables may have rules that `state` does not have, after a refusal. */
  isIncomplete: boolean;
}

/** Reads and writes the tables of one family, and keeps the last reading as long as it may be true. */
export class KnownTables {
  readonly #family: IpFamily;
  readonly #port: IptablesPort;
  readonly #own: OwnTransactions;
  readonly #maxAgeMs: number;
  #reading: TablesReading | undefined;
  #readings = 0;

  constructor(family: IpFamily, port: IptablesPort, own: OwnTransactions, maxAgeMs = MAX_AGE_MS) {
    this.#family = family;
    this.#port = port;
    this.#own = own;
    this.#maxAgeMs = maxAgeMs;
  }

  /** How often the tables were read. */
  get readings(): number {
    return this.#readings;
  }

  /** Reads the tables if they are not known. */
  async read(): Promise<TablesReading> {
    if (this.#reading !== undefined) return this.#reading;
    const began = performance.now();
    const generation = await this.#port.generation();
    const saved = parseSave(await this.#port.read(this.#family));
    // With thousands of chains, iptables-nft-save takes seconds: longer than a reading may be old.
    const at = performance.now();
    const state = await readState(saved, this.#family);
    this.#readings += 1;
    return (this.#reading = { state, began, saved, at, generation, isIncomplete: false });
  }

  /** The tables are read again when they are needed next. */
  forget(): void {
    this.#reading = undefined;
  }

  /** Forgets a reading that began before this time (performance.now()), unless only this program has written since. */
  async forgetBefore(time: number): Promise<void> {
    const reading = this.#reading;
    if (reading === undefined || (reading.began >= time && !reading.isIncomplete)) return;
    if (reading.isIncomplete || !(await this.hasOnlyOwnChangesSince(reading.generation))) this.forget();
  }

  async forgetOld(): Promise<void> {
    const reading = this.#reading;
    if (reading === undefined) return;
    if (reading.isIncomplete) this.forget();
    else if (performance.now() - reading.at >= this.#maxAgeMs) {
      if (await this.hasOnlyOwnChangesSince(reading.generation)) reading.at = performance.now();
      else this.forget();
    }
  }

  /** Whether it is known that only this program has written since, in either family. */
  async hasOnlyOwnChangesSince(generation: number | undefined): Promise<boolean> {
    if (generation === undefined) return false;
    const now = await this.#port.generation();
    return now !== undefined && this.#own.areAll(generation, now);
  }

  /** Writes a script. The caller must then apply the same changes to the reading. */
  async write(script: string): Promise<void> {
    const before = await this.#port.generation();
    await this.#port.write(this.#family, script);
    if (before === undefined) return;
    // Each table of the script is a transaction. If there were more, another program has made one.
    const after = before + (script.match(/^COMMIT$/gm)?.length ?? 0);
    if ((await this.#port.generation()) === after) this.#own.record(before, after);
  }
}
