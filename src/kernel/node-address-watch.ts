import { RawNetlinkSocket } from 'netlink';
import { RTM_NEWADDR, decodeAddress } from '../netlink/family/route/address.ts';
import { RTM_NEWLINK, decodeLink } from '../netlink/family/route/link.ts';
import { type NetlinkMessage, messages } from '../netlink/message.ts';
import type { Log } from '../observe/log.ts';

/** linux/netlink.h. */
const NETLINK_ROUTE = 0;
/** linux/rtnetlink.h: RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR. */
const GROUPS = [1, 5, 9];
const RTM_DELADDR = RTM_NEWADDR + 1;
// Binding thousands of addresses to kube-ipvs0 is reported here too, and must not push the others out.
const RECEIVE_BUFFER = 1024 * 1024;
// Nothing is sent; the package wants a size.
const SEND_BUFFER = 32 * 1024;
const REOPEN_MS = 1000;

export interface NodeAddressWatchOptions {
  /** Name of the interface whose addresses are not the node's own. */
  readonly device: string;
  /** Its index now; undefined where it does not exist. */
  readonly findDevice: () => Promise<number | undefined>;
  readonly log: Log;
  readonly onChange: () => void;
}

/**
 * Hears of every address that comes or goes, by multicast, in the network namespace of this process. Where reports may have
 * been lost it says that something changed.
 */
export class NodeAddressWatch {
  readonly #options: NodeAddressWatchOptions;
  #socket: RawNetlinkSocket | undefined;
  #timer: NodeJS.Timeout | undefined;
  #device: number | undefined;
  #stopped = false;

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
    if (this.#socket !== undefined) closeLater(this.#socket);
    this.#socket = undefined;
  }

  #open(): void {
    try {
      const socket = new RawNetlinkSocket(NETLINK_ROUTE, {
        recvBufferSize: RECEIVE_BUFFER,
        sendBufferSize: SEND_BUFFER,
      });
      this.#socket = socket;
      socket.on('message', (bytes) => this.#receive(bytes));
      socket.on('error', (error) => this.#lost(socket, error));
      socket.unref();
      for (const group of GROUPS) socket.addMembership(group);
    } catch (error) {
      this.#reopenLater(error);
    }
  }

  #lost(socket: RawNetlinkSocket, error: unknown): void {
    if (this.#stopped || socket !== this.#socket) return;
    if (isOverflow(error)) {
      // Usual where thousands of addresses are bound to our own interface. The socket goes on; what it would have said is gone.
      this.#options.log.debug(2, 'more address changes than could be reported: reading them all');
    } else {
      closeLater(socket);
      this.#reopenLater(error);
    }
    this.#options.onChange();
  }

  #reopenLater(error: unknown): void {
    this.#socket = undefined;
    const reason = error instanceof Error ? error.message : String(error);
    this.#options.log.warn('reports of address changes were lost; listening again shortly', { reason });
    this.#timer = setTimeout(() => {
      this.#open();
      this.#options.onChange();
    }, REOPEN_MS);
    this.#timer.unref();
  }

  #receive(bytes: Uint8Array): void {
    if (this.#stopped) return;
    let changed = false;
    try {
      for (const message of messages(bytes)) changed = this.#isChange(message) || changed;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#options.log.warn('a report of address changes cannot be read', { reason });
      changed = true;
    }
    if (changed) this.#options.onChange();
  }

  #isChange({ type, payload }: NetlinkMessage): boolean {
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

/** Never within one of its callbacks, nor in the microtasks behind one: the package goes on to use what close() frees, and aborts. */
function closeLater(socket: RawNetlinkSocket): void {
  setImmediate(() => socket.close());
}

function isOverflow(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOBUFS';
}
