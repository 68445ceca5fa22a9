import type { DrainLedger } from '../diff/drain.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';

/** Interval between two reads of the connection counts of draining real servers. */
const CHECK_MS = 5_000;

/** A virtual server and the number of its draining real servers. */
export interface DrainingVirtualServer {
  readonly id: VirtualServerId;
  readonly servers: number;
}

/** Remembers which virtual servers had draining real servers in the last sync, and when to check them next. */
export class Draining {
  readonly #ledger: Pick<DrainLedger, 'nextDeadline'>;
  readonly #virtualServers = new Map<VirtualServerKey, DrainingVirtualServer>();
  #dueAt = Infinity;

  constructor(ledger: Pick<DrainLedger, 'nextDeadline'>) {
    this.#ledger = ledger;
  }

  /** Time of the next check, in ms of the monotonic clock; Infinity while nothing drains. */
  get dueAt(): number {
    return this.#dueAt;
  }

  get servers(): number {
    let sum = 0;
    for (const { servers } of this.#virtualServers.values()) sum += servers;
    return sum;
  }

  /** Records that a sync read the virtual servers `ids` and found `draining` among them. */
  update(ids: readonly VirtualServerId[], draining: readonly DrainingVirtualServer[], now: number): void {
    for (const id of ids) this.#virtualServers.delete(virtualServerKey(id));
    for (const found of draining) this.#virtualServers.set(virtualServerKey(found.id), found);
    this.#reschedule(now);
  }

  /** Returns the virtual servers to check now. */
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
