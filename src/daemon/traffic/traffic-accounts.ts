import type { Traffic } from '../../observe/service-traffic.ts';
import type { VirtualServerKey } from '../../state/virtual-server.ts';
import { COUNTERS, NO_STATS, type RealServerStats, type VirtualServerStats } from '../../state/server-stats.ts';

/** What the kernel reports now about one Service port or real server. */
export interface CounterReading {
  /** The counters of each virtual server. */
  readonly counters: Map<VirtualServerKey, VirtualServerStats>;
  activeConnections: number;
  inactiveConnections: number;
}

export function emptyReading(): CounterReading {
  return { counters: new Map(), activeConnections: 0, inactiveConnections: 0 };
}

export function addConnections(reading: CounterReading, server: RealServerStats): void {
  reading.activeConnections += server.activeConnections;
  reading.inactiveConnections += server.inactiveConnections;
}

/** The accumulated total, and the last kernel counters of each virtual server. */
interface Account {
  total: VirtualServerStats;
  readonly last: Map<VirtualServerKey, VirtualServerStats>;
}

/**
 * Accumulates counters over virtual servers, which are deleted and added again with counters at zero. Each reading adds
 * the increase since the last one, so the total of an account never decreases while the account exists.
 */
export class TrafficAccounts {
  #accounts = new Map<string, Account>();

  clear(): void {
    this.#accounts.clear();
  }

  /**
   * Adds the readings, and returns each with its traffic. Accounts without a reading are deleted. The caller may pause
   * at each `yield`.
   *
   * @param isGone whether a virtual server without a reading was deleted: its counters restart at zero
   */
  *count<R extends CounterReading>(
    readings: ReadonlyMap<string, R>,
    isGone: (virtualServer: VirtualServerKey) => boolean,
  ): Generator<void, (readonly [R, Traffic])[], undefined> {
    const accounts = new Map<string, Account>();
    const counted: (readonly [R, Traffic])[] = [];
    for (const [key, reading] of readings) {
      const { counters, activeConnections, inactiveConnections } = reading;
      const account = this.#accounts.get(key) ?? { total: NO_STATS, last: new Map() };
      for (const known of [...account.last.keys()].filter((each) => !counters.has(each) && isGone(each))) {
        account.last.delete(known);
      }
      for (const [virtualServer, now] of counters) {
        account.total = sum(account.total, now, account.last.get(virtualServer) ?? NO_STATS);
        account.last.set(virtualServer, now);
      }
      accounts.set(key, account);
      counted.push([reading, { ...account.total, activeConnections, inactiveConnections }]);
      yield;
    }
    this.#accounts = accounts;
    return counted;
  }
}

/** Adds the increase since the last reading. If any counter has decreased, all of them were reset to zero. */
function sum(before: VirtualServerStats, now: VirtualServerStats, last: VirtualServerStats): VirtualServerStats {
  const since = COUNTERS.some((field) => now[field] < last[field]) ? NO_STATS : last;
  const total = { ...before };
  for (const field of COUNTERS) total[field] += now[field] - since[field];
  return total;
}
