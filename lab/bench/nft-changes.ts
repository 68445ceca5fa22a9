import { type Multicast, listen } from '../../src/netlink/transport/multicast.ts';
import { NETLINK_NETFILTER } from '../../src/netlink/netlink-protocol.ts';
import { now } from './api-process.ts';

/** linux/netfilter/nfnetlink.h: NFNLGRP_NFTABLES. */
const GROUP = 7;
const RECEIVE_BUFFER = 4 * 1024 * 1024;

/** Tells when a transaction of nf_tables was executed in a namespace, without looking again and again. */
export class NftChanges implements Disposable {
  readonly #multicast: Multicast;
  #change = Promise.withResolvers<number>();

  /** @param netns path of the namespace */
  constructor(netns: string) {
    const changed = (): void => {
      this.#change.resolve(now());
      this.#change = Promise.withResolvers();
    };
    const options = { protocol: NETLINK_NETFILTER, groups: [GROUP], netns, receiveBuffer: RECEIVE_BUFFER };
    // What was lost was a change as well.
    this.#multicast = listen({ ...options, onReports: changed, onLost: changed });
  }

  /** Looks after each change until something has come. Returns the time of the change that brought it, by `now()`. */
  async until(done: () => Promise<boolean>): Promise<number> {
    for (let next = this.#change.promise; ;) {
      const at = await next;
      // A change during the look is not missed.
      next = this.#change.promise;
      if (await done()) return at;
    }
  }

  [Symbol.dispose](): void {
    this.#multicast.close();
  }
}
