import { RTM_NEWADDR, decodeAddress } from '../netlink/family/route/address.ts';
import { RTM_NEWLINK, decodeLink } from '../netlink/family/route/link.ts';
import type { NetlinkMessage } from '../netlink/message.ts';
import { type Multicast, listen } from '../netlink/multicast.ts';
import { NETLINK_ROUTE } from '../netlink/protocol.ts';
import type { Log } from '../observe/log.ts';

/** linux/rtnetlink.h: RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR. */
const GROUPS = [1, 5, 9];
const RTM_DELADDR = RTM_NEWADDR + 1;
// Binding thousands of addresses to kube-ipvs0 is reported here too, and should not push the others out.
const RECEIVE_BUFFER = 1024 * 1024;
const REOPEN_MS = 1000;

export interface NodeAddressWatchOptions {
  /** Path of a network namespace; default: our own. */
  readonly netns: string | undefined;
  /** Name of the interface whose addresses are not the node's own. */
  readonly device: string;
  /** Its index now; undefined where it does not exist. */
  readonly findDevice: () => Promise<number | undefined>;
  readonly log: Log;
  readonly onChange: () => void;
}

/** Hears of every address that comes or goes, by multicast. Where reports may have been lost it says that something changed. */
export class NodeAddressWatch {
  readonly #options: NodeAddressWatchOptions;
  #multicast: Multicast | undefined;
  #timer: NodeJS.Timeout | undefined;
  #device: number | undefined;
  #stopped = false;
  /** It was said that there is no watch just now. */
  #told = false;

  constructor(options: NodeAddressWatchOptions) {
    this.#options = options;
  }

  start(): void {
    this.#stopped = false;
    this.#open();
    this.#options.findDevice().then(
      (index) => {
        this.#device ??= index;
      },
      // Until a report about it names its index, its addresses count as changes: more calls than needed, none too few.
      () => undefined,
    );
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#multicast?.close();
    this.#multicast = undefined;
  }

  #open(): void {
    const { netns } = this.#options;
    try {
      this.#multicast = listen({
        protocol: NETLINK_ROUTE,
        groups: GROUPS,
        ...(netns === undefined ? {} : { netns }),
        receiveBuffer: RECEIVE_BUFFER,
        onReports: (reports) => this.#take(reports),
        onLost: (reason, final) => this.#lost(reason, final),
      });
      if (this.#told) this.#options.log.info('address changes are watched again');
      this.#told = false;
    } catch (error) {
      this.#reopenLater(error instanceof Error ? error.message : String(error));
    }
  }

  #lost(reason: string, final: boolean): void {
    if (this.#stopped) return;
    if (final) this.#reopenLater(reason);
    // Usual where thousands of addresses are bound to our own interface. The socket goes on; what it would have said is gone.
    else this.#options.log.debug(2, 'reports of address changes were lost: reading all addresses', { reason });
    this.#options.onChange();
  }

  #reopenLater(reason: string): void {
    this.#multicast?.close();
    this.#multicast = undefined;
    if (!this.#told) this.#options.log.warn('address changes cannot be watched; trying again each second', { reason });
    this.#told = true;
    this.#timer = setTimeout(() => {
      this.#open();
      this.#options.onChange();
    }, REOPEN_MS);
    this.#timer.unref();
  }

  #take(reports: readonly NetlinkMessage[]): void {
    if (this.#stopped) return;
    let changed = false;
    for (const report of reports) changed = this.#isChange(report) || changed;
    if (changed) this.#options.onChange();
  }

  /** One that cannot be read may be one. */
  #isChange(report: NetlinkMessage): boolean {
    try {
      return this.#concernsNode(report);
    } catch (error) {
      this.#options.log.warn('a report of address changes cannot be read', { reason: String(error) });
      return true;
    }
  }

  #concernsNode({ type, payload }: NetlinkMessage): boolean {
    if (type === RTM_NEWLINK) {
      const { name, index } = decodeLink(payload);
      if (name === this.#options.device) this.#device = index;
      return false;
    }
    if (type !== RTM_NEWADDR && type !== RTM_DELADDR) return false;
    const address = decodeAddress(payload);
    return address !== undefined && address.index !== this.#device;
  }
}
