import { type ObservedRealServer, type RealServerKey, realServerKey } from '../state/real-server.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';

/** How to handle a real server that is no longer desired. */
export type DrainDecision = 'delete' | 'drain' | 'keep-draining';

type Server = Pick<ObservedRealServer, 'address' | 'port'>;

/**
 * Remembers when each real server started to drain, to enforce the deadline. Weight (0 while draining) and connection
 * counts are read from the kernel each time, so a restart of this program only restarts the deadline.
 */
export class DrainLedger {
  readonly #since = new Map<VirtualServerKey, Map<RealServerKey, number>>();
  readonly #deadlineMs: number;

  /** @param deadlineMs 0: no deadline, as in kube-proxy. */
  constructor(deadlineMs: number) {
    this.#deadlineMs = deadlineMs;
  }

  /** Returns the next deadline after `now` (both in ms of the same clock), or Infinity if there is none. */
  nextDeadline(now: number): number {
    let next = Infinity;
    if (this.#deadlineMs === 0) return next;
    for (const servers of this.#since.values()) {
      for (const since of servers.values()) {
        // A deadline in the past belongs to a real server that another process deleted.
        if (since + this.#deadlineMs > now) next = Math.min(next, since + this.#deadlineMs);
      }
    }
    return next;
  }

  /** Decides at time `now` (ms) how to handle a real server that is no longer desired. Remembers it if it drains. */
  decide(id: VirtualServerId, server: ObservedRealServer, now: number): DrainDecision {
    // As in kube-proxy, only TCP drains: expire_nodest_conn drops UDP and SCTP flows of deleted real servers.
    if (id.protocol !== 'TCP' || server.activeConnections + server.inactiveConnections === 0) return 'delete';
    const virtualServer = virtualServerKey(id);
    const servers = this.#since.get(virtualServer) ?? new Map<RealServerKey, number>();
    const since = servers.get(realServerKey(server)) ?? now;
    if (this.#deadlineMs > 0 && now - since >= this.#deadlineMs) return 'delete';
    this.#since.set(virtualServer, servers.set(realServerKey(server), since));
    return server.weight === 0 ? 'keep-draining' : 'drain';
  }

  /** Forgets all real servers of this virtual server except `draining`. If one drains again, its deadline restarts. */
  keepOnly(id: VirtualServerId, draining: readonly Server[]): void {
    const servers = this.#since.get(virtualServerKey(id));
    if (servers === undefined) return;
    const kept = new Set(draining.map(realServerKey));
    for (const key of servers.keys()) if (!kept.has(key)) servers.delete(key);
    if (servers.size === 0) this.#since.delete(virtualServerKey(id));
  }
}
