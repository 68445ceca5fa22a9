import { errorText } from '../../base/text/error-text.ts';
import { AF_UNSPEC } from '../../netlink/codec/address-family.ts';
import { RTM_DELADDR, RTM_NEWADDR, decodeAddress } from '../../netlink/family/route/address.ts';
import { type Link, RTM_DELLINK, RTM_NEWLINK, decodeLink } from '../../netlink/family/route/link.ts';
import type { NetlinkMessage } from '../../netlink/netlink-message.ts';
import { type Multicast, listen } from '../../netlink/transport/multicast.ts';
import { NETLINK_ROUTE } from '../../netlink/netlink-protocol.ts';
import type { Trace } from '../../netlink/trace/trace.ts';
import type { Log } from '../../observe/log/log.ts';

/** linux/rtnetlink.h: RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR. */
const GROUPS = [1, 5, 9];
// Large enough for the notifications of thousands of addresses bound to kube-ipvs0, so that others are not lost.
const RECEIVE_BUFFER = 1024 * 1024;
const REOPEN_MS = 1000;

export interface NodeAddressWatchOptions {
  /** Path of a network namespace; default: our own. */
  readonly netns: string | undefined;
  /** Name of kube-ipvs0, whose addresses are not the node's own. */
  readonly device: string;
  /** Returns the current index of `device`; undefined if it does not exist. */
  readonly findDevice: () => Promise<number | undefined>;
  readonly log: Log;
  readonly trace?: Trace;
  readonly onChange: () => void;
  /** Called when `device` was deleted, renamed or replaced; `reason` says which. */
  readonly onDeviceLost: (reason: string) => void;
}

/**
 * Watches interface addresses and the existence of kube-ipvs0 by netlink multicast. When notifications may have been
 * lost, it reports a change and checks whether kube-ipvs0 still exists.
 */
export class NodeAddressWatch {
  readonly #options: NodeAddressWatchOptions;
  #multicast: Multicast | undefined;
  #timer: NodeJS.Timeout | undefined;
  #device: number | undefined;
  #stopped = false;
  /** Whether the failure of the watch was logged. */
  #logged = false;

  constructor(options: NodeAddressWatchOptions) {
    this.#options = options;
  }

  start(): void {
    this.#stopped = false;
    this.#open();
    void this.#findDevice();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#multicast?.close();
    this.#multicast = undefined;
  }

  /**
   * Reads the index of the device. On failure, addresses of the device count as changes until a notification contains
   * the index: this causes extra calls of onChange, but misses no change.
   */
  async #findDevice(): Promise<void> {
    const { findDevice, device } = this.#options;
    const before = this.#device;
    const index = await findDevice().catch(() => before);
    // A notification that arrived meanwhile is more recent.
    if (this.#stopped || this.#device !== before) return;
    this.#device = index;
    if (before === undefined || index === before) return;
    this.#options.onDeviceLost(`${device} was ${index === undefined ? 'deleted' : 'deleted and created again'}`);
  }

  #open(): void {
    const { netns, trace } = this.#options;
    try {
      this.#multicast = listen({
        protocol: NETLINK_ROUTE,
        groups: GROUPS,
        ...(netns === undefined ? {} : { netns }),
        receiveBuffer: RECEIVE_BUFFER,
        trace,
        onReports: (reports) => this.#take(reports),
        onLost: (reason, final) => this.#lost(reason, final),
      });
      if (this.#logged) this.#options.log.info('watch on address changes re-established');
      this.#logged = false;
    } catch (error) {
      this.#reopenLater(errorText(error));
    }
  }

  #lost(reason: string, final: boolean): void {
    if (this.#stopped) return;
    if (final) this.#reopenLater(reason);
    // A loss is expected when thousands of addresses are bound to kube-ipvs0. The socket stays open.
    else this.#options.log.debug(2, 'address notifications were lost: reading all addresses', { reason });
    void this.#findDevice();
    this.#options.onChange();
  }

  #reopenLater(reason: string): void {
    this.#multicast?.close();
    this.#multicast = undefined;
    if (!this.#logged) this.#options.log.warn('watch on address changes failed; retrying every second', { reason });
    this.#logged = true;
    this.#timer = setTimeout(() => {
      this.#open();
      void this.#findDevice();
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

  /** A notification that cannot be decoded counts as a change. */
  #isChange(report: NetlinkMessage): boolean {
    try {
      return this.#concernsNode(report);
    } catch (error) {
      this.#options.log.warn('failed to decode an address notification from the kernel', { reason: String(error) });
      return true;
    }
  }

  #concernsNode({ type, payload }: NetlinkMessage): boolean {
    if (type === RTM_NEWLINK || type === RTM_DELLINK) {
      // Bridge port notifications have the same type and another family.
      if (payload[0] === AF_UNSPEC) this.#takeLink(type, decodeLink(payload));
      return false;
    }
    if (type !== RTM_NEWADDR && type !== RTM_DELADDR) return false;
    const address = decodeAddress(payload);
    return address !== undefined && address.index !== this.#device;
  }

  #takeLink(type: number, { name, index }: Link): void {
    const { device, onDeviceLost } = this.#options;
    if (type === RTM_NEWLINK && name === device) {
      this.#device = index;
    } else if (index === this.#device) {
      this.#device = undefined;
      onDeviceLost(type === RTM_DELLINK ? `${device} was deleted` : `${device} was renamed to ${name}`);
    }
  }
}
