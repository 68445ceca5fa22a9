import type { VirtualServerKey } from '../../state/virtual-server.ts';
import type { VirtualServerStats } from '../../state/server-stats.ts';

/** Current kernel counters, by account and by virtual server of the account. */
export type Readings = Iterable<readonly [string, ReadonlyMap<VirtualServerKey, VirtualServerStats>]>;

/** The accumulated total, and the last kernel counters of each virtual server. */
interface Account {
  total: VirtualServerStats;
  readonly last: Map<VirtualServerKey, VirtualServerStats>;
}

const EMPTY: VirtualServerStats = {
  connections: 0,
  incomingPackets: 0,
  outgoingPackets: 0,
  incomingBytes: 0,
  outgoingBytes: 0,
};

const FIELDS = Object.keys(EMPTY) as (keyof VirtualServerStats)[];

/**
 * Accumulates counters over virtual servers, which are deleted and added again with counters at zero. Each reading adds
 * the increase since the last one, so the total of an account never decreases while the account exists.
 */
export class TrafficAccounts {
  #accounts = new Map<string, Account>();

  total(account: string): VirtualServerStats {
    return this.#accounts.get(account)?.total ?? EMPTY;
  }

  clear(): void {
    this.#accounts.clear();
  }

  /**
   * Adds the readings. Accounts without a reading are deleted. The caller may pause at each `yield`.
   *
   * @param isGone whether a virtual server without a reading was deleted: its counters restart at zero
   */
  *count(readings: Readings, isGone: (virtualServer: VirtualServerKey) => boolean): Generator<void, void, undefined> {
    const accounts = new Map<string, Account>();
    for (const [key, reading] of readings) {
      const account = this.#accounts.get(key) ?? { total: EMPTY, last: new Map() };
      for (const known of [...account.last.keys()].filter((each) => !reading.has(each) && isGone(each))) {
        account.last.delete(known);
      }
      for (const [virtualServer, now] of reading) {
        account.total = sum(account.total, now, account.last.get(virtualServer) ?? EMPTY);
        account.last.set(virtualServer, now);
      }
      accounts.set(key, account);
      yield;
    }
    this.#accounts = accounts;
  }
}

/** Adds the increase since the last reading. If any counter has decreased, all of them were reset to zero. */
function sum(total: VirtualServerStats, now: VirtualServerStats, last: VirtualServerStats): VirtualServerStats {
  const since = FIELDS.some((field) => now[field] < last[field]) ? EMPTY : last;
  return {
    connections: total.connections + now.connections - since.connections,
    incomingPackets: total.incomingPackets + now.incomingPackets - since.incomingPackets,
    outgoingPackets: total.outgoingPackets + now.outgoingPackets - since.outgoingPackets,
    incomingBytes: total.incomingBytes + now.incomingBytes - since.incomingBytes,
    outgoingBytes: total.outgoingBytes + now.outgoingBytes - since.outgoingBytes,
  };
}
