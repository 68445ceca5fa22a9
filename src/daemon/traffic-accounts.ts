import type { VirtualServerStats } from '../kernel/kernel.ts';
import type { VirtualServerKey } from '../state/virtual-server.ts';

/** What the kernel says now, by account and by the virtual servers that the account is fed from. */
export type Readings = Iterable<readonly [string, ReadonlyMap<VirtualServerKey, VirtualServerStats>]>;

/** What was carried, and what the kernel last said for each virtual server. */
interface Account {
  total: VirtualServerStats;
  readonly last: Map<VirtualServerKey, VirtualServerStats>;
}

const NOTHING: VirtualServerStats = {
  connections: 0,
  incomingPackets: 0,
  outgoingPackets: 0,
  incomingBytes: 0,
  outgoingBytes: 0,
};

const FIELDS = Object.keys(NOTHING) as (keyof VirtualServerStats)[];

/**
 * Sums over virtual servers, which come and go, and whose counters begin anew when they do: what each has carried since it was last
 * looked at is added up, so that a sum never goes down as long as its account is there.
 */
export class TrafficAccounts {
  #accounts = new Map<string, Account>();

  total(account: string): VirtualServerStats {
    return this.#accounts.get(account)?.total ?? NOTHING;
  }

  clear(): void {
    this.#accounts.clear();
  }

  /**
   * Accounts without a reading are forgotten. May be cut at each `yield`.
   *
   * @param isGone whether a virtual server that an account has no reading of begins anew when it is back
   */
  *count(readings: Readings, isGone: (virtualServer: VirtualServerKey) => boolean): Generator<void, void, undefined> {
    const accounts = new Map<string, Account>();
    for (const [key, reading] of readings) {
      const account = this.#accounts.get(key) ?? { total: NOTHING, last: new Map() };
      for (const known of [...account.last.keys()].filter((each) => !reading.has(each) && isGone(each))) {
        account.last.delete(known);
      }
      for (const [virtualServer, now] of reading) {
        account.total = sum(account.total, now, account.last.get(virtualServer) ?? NOTHING);
        account.last.set(virtualServer, now);
      }
      accounts.set(key, account);
      yield;
    }
    this.#accounts = accounts;
  }
}

/** Adds what came since the last look. Any counter that fell says that all began anew. */
function sum(total: VirtualServerStats, now: VirtualServerStats, last: VirtualServerStats): VirtualServerStats {
  const since = FIELDS.some((field) => now[field] < last[field]) ? NOTHING : last;
  return {
    connections: total.connections + now.connections - since.connections,
    incomingPackets: total.incomingPackets + now.incomingPackets - since.incomingPackets,
    outgoingPackets: total.outgoingPackets + now.outgoingPackets - since.outgoingPackets,
    incomingBytes: total.incomingBytes + now.incomingBytes - since.incomingBytes,
    outgoingBytes: total.outgoingBytes + now.outgoingBytes - since.outgoingBytes,
  };
}
