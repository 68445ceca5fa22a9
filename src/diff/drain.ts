import type { Protocol } from '../net/protocol.ts';
import type { ObservedRealServer } from '../state/real-server.ts';
import { realServerKey } from '../state/real-server.ts';
import { type VirtualServerId, virtualServerKey } from '../state/virtual-server.ts';

/** What becomes of a real server that is no longer wanted. */
export type Fate = 'delete' | 'drain' | 'keep-draining';

/**
 * Since when each real server drains: the only thing remembered about draining. That one drains, and whether it is done, is read
 * from the kernel each time (weight 0, connection counts), so a restart in the middle loses at most the deadline's beginning.
 */
export class DrainLedger {
  readonly #since = new Map<string, number>();
  readonly #deadlineMs: number;

  /** deadlineMs 0: no deadline, as upstream. */
  constructor(deadlineMs: number) {
    this.#deadlineMs = deadlineMs;
  }

  get size(): number {
    return this.#since.size;
  }

  /** When the next deadline is, in the ms of `now`; Infinity when there is none to come. */
  nextDeadline(now: number): number {
    if (this.#deadlineMs === 0) return Infinity;
    // In the order in which they began to drain. One whose time has passed was taken away by somebody else.
    for (const since of this.#since.values()) if (since + this.#deadlineMs > now) return since + this.#deadlineMs;
    return Infinity;
  }

  /** Decides on an unwanted real server at the time `now` (ms), and keeps the ledger. */
  judge(id: VirtualServerId, server: ObservedRealServer, now: number): Fate {
    const key = drainKey(id, server);
    if (!drains(id.protocol) || server.activeConnections + server.inactiveConnections === 0) {
      this.#since.delete(key);
      return 'delete';
    }
    const since = this.#since.get(key) ?? now;
    if (this.#deadlineMs > 0 && now - since >= this.#deadlineMs) {
      this.#since.delete(key);
      return 'delete';
    }
    this.#since.set(key, since);
    return server.weight === 0 ? 'keep-draining' : 'drain';
  }

  /** The real server is wanted again, or gone. */
  forget(id: VirtualServerId, server: Pick<ObservedRealServer, 'address' | 'port'>): void {
    if (this.#since.size > 0) this.#since.delete(drainKey(id, server));
  }
}

// UDP and SCTP flows cannot be told to end: expire_nodest_conn frees them with their real server.
function drains(protocol: Protocol): boolean {
  return protocol === 'TCP';
}

function drainKey(id: VirtualServerId, server: Pick<ObservedRealServer, 'address' | 'port'>): string {
  return `${virtualServerKey(id)} ${realServerKey(server)}`;
}
