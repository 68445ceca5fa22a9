import {
  type Endpoint,
  type FoundRealServer,
  type RealServerKey,
  realServerKey,
  realServerOf,
} from '../state/real-server.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';

/** How to handle a real server that is no longer wanted. */
export type DrainDecision = 'delete' | 'drain' | 'keep-draining';

/** Interval between two reads of the connection counts of draining real servers. */
const CHECK_MS = 5_000;

/** The real servers of one virtual server that drain, each with the time when it started. */
interface Draining {
  readonly id: VirtualServerId;
  readonly since: Map<RealServerKey, number>;
}

/**
 * Remembers when each real server started to drain, to enforce the deadline, and when to check them next. Weight (0
 * while draining) and connection counts are read from the kernel each time, so a restart of this program only restarts
 * the deadline. All times are in ms of the same clock.
 */
export class DrainLedger {
  readonly #draining = new Map<VirtualServerKey, Draining>();
  readonly #timeoutMs: number;
  #dueAt = Infinity;

  /** @param timeoutMs 0: no deadline, as in kube-proxy. */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  get servers(): number {
    let sum = 0;
    for (const { since } of this.#draining.values()) sum += since.size;
    return sum;
  }

  /** Yields the draining real servers, each with the time when it started to drain. */
  *draining(): IterableIterator<{
    readonly id: VirtualServerId;
    readonly server: RealServerKey;
    readonly since: number;
  }> {
    for (const { id, since } of this.#draining.values()) {
      for (const [server, began] of since) yield { id, server, since: began };
    }
  }

  drainingOf(id: VirtualServerId): readonly Endpoint[] {
    return Array.from(this.#draining.get(virtualServerKey(id))?.since.keys() ?? [], realServerOf);
  }

  /** Time of the next check; Infinity while nothing drains. */
  get dueAt(): number {
    return this.#dueAt;
  }

  /** Returns the virtual servers to check now. */
  takeDue(now: number): VirtualServerId[] {
    if (this.#dueAt > now) return [];
    this.#dueAt = Infinity;
    return Array.from(this.#draining.values(), ({ id }) => id);
  }

  /**
   * Decides at time `now` how to handle a real server that is no longer wanted. Remembers it if it drains.
   *
   * @param timeoutMs 0: no deadline; that of the constructor by default
   */
  decide(id: VirtualServerId, server: FoundRealServer, now: number, timeoutMs = this.#timeoutMs): DrainDecision {
    // As in kube-proxy, only TCP drains: expire_nodest_conn drops UDP and SCTP flows of deleted real servers.
    if (id.protocol !== 'TCP' || connectionsOf(server) === 0) return 'delete';
    const draining = this.#draining.get(virtualServerKey(id)) ?? { id, since: new Map<RealServerKey, number>() };
    const since = draining.since.get(realServerKey(server)) ?? now;
    const deadline = since + (timeoutMs === 0 ? Infinity : timeoutMs);
    if (now >= deadline) return 'delete';
    draining.since.set(realServerKey(server), since);
    this.#draining.set(virtualServerKey(id), draining);
    this.#dueAt = Math.min(this.#dueAt, now + CHECK_MS, deadline);
    return server.weight === 0 ? 'keep-draining' : 'drain';
  }

  /** Forgets all real servers of this virtual server except `kept`. If one drains again, its deadline restarts. */
  keepOnly(id: VirtualServerId, kept: Pick<ReadonlySet<RealServerKey>, 'has'> = new Set()): void {
    const draining = this.#draining.get(virtualServerKey(id));
    if (draining === undefined) return;
    for (const key of draining.since.keys()) if (!kept.has(key)) draining.since.delete(key);
    if (draining.since.size === 0) this.#draining.delete(virtualServerKey(id));
    if (this.#draining.size === 0) this.#dueAt = Infinity;
  }
}

/** Decides for a comparison that writes nothing: remembers nothing, and leaves what drains alone. */
export const READ_ONLY_LEDGER: Pick<DrainLedger, 'decide' | 'keepOnly'> = {
  decide: ({ protocol }, server) => {
    if (server.weight === 0 && protocol === 'TCP') return 'keep-draining';
    return protocol === 'TCP' && connectionsOf(server) !== 0 ? 'drain' : 'delete';
  },
  keepOnly: () => undefined,
};

/** Returns undefined if they were not read: there may be some. */
function connectionsOf({ activeConnections, inactiveConnections }: FoundRealServer): number | undefined {
  if (activeConnections === undefined || inactiveConnections === undefined) return undefined;
  return activeConnections + inactiveConnections;
}
