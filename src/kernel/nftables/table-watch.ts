import { IP_FAMILIES, type IpFamily } from '../../base/ip.ts';
import { errorText } from '../../base/text/error-text.ts';
import type { Log } from '../../observe/log/log.ts';
import { nftTable } from '../../state/nft-table.ts';

/** The time from the end of one look to the next. */
const PERIOD_MS = 1_000;

export interface TableWatchOptions {
  readonly log: Log;
  /** Reads the generation of the ruleset. */
  readonly generation: () => Promise<number>;
  /** Whether only this process changed the ruleset from one generation to another. */
  readonly isOwn: (before: number, after: number) => boolean;
  /** Whether a table that this process has written no longer exists. */
  readonly isLost: (family: IpFamily) => Promise<boolean>;
  /** Called when a table of ours was deleted; `reason` says which. */
  readonly onTableLost: (reason: string) => void;
}

/**
 * Notices within a second that another program deleted a table. It polls the generation of the ruleset, because the kernel
 * keeps one notification of 4 KiB or more for each element of a transaction until the end, if anybody listens to the
 * multicast group of nf_tables (net/netfilter/nf_tables_api.c: nf_tables_setelem_notify, nft_commit_notify).
 */
export class TableWatch {
  readonly #options: TableWatchOptions;
  #generation: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(options: TableWatchOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setTimeout(() => void this.#look(), PERIOD_MS).unref();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  async #look(): Promise<void> {
    try {
      await this.#compare();
    } catch (error) {
      // The next look compares with the same generation.
      if (!this.#stopped)
        this.#options.log.debug(2, 'cannot look at nf_tables; trying again', { reason: errorText(error) });
    }
    if (!this.#stopped) this.start();
  }

  async #compare(): Promise<void> {
    const { generation, isOwn, isLost, onTableLost } = this.#options;
    const before = this.#generation;
    const now = await generation();
    if (before !== undefined && isOwn(before, now)) {
      this.#generation = now;
      return;
    }
    for (const family of IP_FAMILIES) {
      if ((await isLost(family)) && !this.#stopped) onTableLost(`table ${nftTable(family)} was deleted`);
    }
    this.#generation = now;
  }
}
