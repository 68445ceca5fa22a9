import type { DrainLedger } from '../diff/drain.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';

/** How often the connection counts of draining real servers are looked at. */
const CHECK_MS = 5_000;

/** A virtual server, and how many of its real servers drain. */
export interface DrainingVirtualServer {
  readonly id: VirtualServerId;
  readonly servers: number;
}

/** Where to look for draining real servers, and when next: found by the syncs, not remembered by us. */
export class Draining {
  readonly #ledger: Pick<DrainLedger, 'nextDeadline'>;
  readonly #virtualServers = new Map<VirtualServerKey, DrainingVirtualServer>();
  #dueAt = Infinity;

  constructor(ledger: Pick<DrainLedger, 'nextDeadline'>) {
    this.#ledger = ledger;
  }

  /** Milliseconds since the epoch; Infinity while nothing drains. */
  get dueAt(): number {
    return this.#dueAt;
  }

  get servers(): number {
    let sum = 0;
    for (const { servers } of this.#virtualServers.values()) sum += servers;
    return sum;
  }

  /** Real servers of it drain, as far as we know. */
  has(id: VirtualServerId): boolean {
    return this.#virtualServers.has(virtualServerKey(id));
  }

  /** A sync looked at `ids`, and these of them drain. */
  update(ids: readonly VirtualServerId[], draining: readonly DrainingVirtualServer[], now: number): void {
    for (const id of ids) this.#virtualServers.delete(virtualServerKey(id));
    for (const found of draining) this.#virtualServers.set(virtualServerKey(found.id), found);
    this.#reschedule(now);
  }

  /** The virtual servers to look at now. */
  takeDue(now: number): VirtualServerId[] {
    if (this.#dueAt > now) return [];
    this.#dueAt = Infinity;
    return Array.from(this.#virtualServers.values(), ({ id }) => id);
  }

  #reschedule(now: number): void {
    if (this.#virtualServers.size === 0) this.#dueAt = Infinity;
    else this.#dueAt = Math.min(this.#dueAt, now + CHECK_MS, this.#ledger.nextDeadline(now));
  }
}
