import { IP_FAMILIES, type IpFamily } from '../../base/ip.ts';
import { errorText } from '../../base/error-text.ts';
import { ipFamily } from '../../netlink/codec/address-family.ts';
import { NFT_MSG_DELTABLE, nftType } from '../../netlink/family/nf-tables/message.ts';
import { decodeTable } from '../../netlink/family/nf-tables/table.ts';
import type { NetlinkMessage } from '../../netlink/message.ts';
import { type Multicast, listen } from '../../netlink/multicast.ts';
import { NETLINK_NETFILTER } from '../../netlink/protocol.ts';
import type { Trace } from '../../netlink/trace/trace.ts';
import type { Log } from '../../observe/log.ts';
import { TABLE, nftTable } from '../../state/nft-table.ts';

/** linux/netfilter/nfnetlink.h: NFNLGRP_NFTABLES. */
const GROUP = 7;
/** A transaction of ours with everything does not fit, but its notifications are not needed. */
const RECEIVE_BUFFER = 1024 * 1024;
const REOPEN_MS = 1000;

export interface TableWatchOptions {
  /** Path of a network namespace; default: our own. */
  readonly netns: string | undefined;
  readonly log: Log;
  readonly trace: Trace;
  /** Whether a table that we have written no longer exists. */
  readonly isLost: (family: IpFamily) => Promise<boolean>;
  /** Called when a table of ours was deleted; `reason` says which. */
  readonly onTableLost: (reason: string) => void;
}

/** Watches whether our tables exist, by netlink multicast. A table that is deleted and created in one transaction exists. */
export class TableWatch {
  readonly #options: TableWatchOptions;
  #multicast: Multicast | undefined;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(options: TableWatchOptions) {
    this.#options = options;
  }

  start(): void {
    this.#open();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#multicast?.close();
  }

  #open(): void {
    const { netns, trace } = this.#options;
    try {
      this.#multicast = listen({
        protocol: NETLINK_NETFILTER,
        groups: [GROUP],
        ...(netns === undefined ? {} : { netns }),
        receiveBuffer: RECEIVE_BUFFER,
        trace,
        onReports: (reports) => this.#take(reports),
        onLost: (reason, final) => {
          if (this.#stopped) return;
          // The lost notifications may have been about a deleted table.
          if (final) this.#reopenLater(reason);
          else this.#confirmAll();
        },
      });
    } catch (error) {
      this.#reopenLater(errorText(error));
    }
  }

  #reopenLater(reason: string): void {
    this.#multicast?.close();
    this.#options.log.debug(2, 'the watch on nf_tables failed; trying again in a second', { reason });
    this.#timer = setTimeout(() => {
      this.#open();
      this.#confirmAll();
    }, REOPEN_MS);
    this.#timer.unref();
  }

  #confirmAll(): void {
    for (const family of IP_FAMILIES) void this.#confirm(family);
  }

  #take(reports: readonly NetlinkMessage[]): void {
    if (this.#stopped) return;
    const lost = new Set<IpFamily>();
    for (const { type, payload } of reports) {
      if (type !== nftType(NFT_MSG_DELTABLE)) continue;
      const family = ipFamily(payload[0] ?? 0);
      if (family !== undefined && nameOf(payload) === TABLE) lost.add(family);
    }
    for (const family of lost) void this.#confirm(family);
  }

  async #confirm(family: IpFamily): Promise<void> {
    const { isLost, onTableLost } = this.#options;
    const lost = await isLost(family).catch(() => false);
    if (lost && !this.#stopped) onTableLost(`table ${nftTable(family)} was deleted`);
  }
}

/** Returns the name of the table; undefined if the notification cannot be decoded. */
function nameOf(payload: Uint8Array): string | undefined {
  try {
    return decodeTable(payload).name;
  } catch {
    return undefined;
  }
}
