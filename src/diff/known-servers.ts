import type { DrainLedger } from './drain.ts';
import type { FoundVirtualServer, WantedVirtualServer } from './virtual-server-diff.ts';
import { compareIp } from '../base/ip.ts';
import { MODES, type ProxyMode } from '../base/proxy-mode.ts';
import { type RealServer, hasSameServerSettings, hasTunnel } from '../state/real-server.ts';
import {
  VS_SCHED_FALLBACK,
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  borrows,
  virtualServerKey,
} from '../state/virtual-server.ts';

/** Up to this many real servers are read: the reply is short, and it shows which ones have drained. */
const READ_UP_TO = 16;

/** With these schedulers, a draining real server keeps its share of new connections, which the kernel then drops. */
const HASHING: ReadonlySet<string> = new Set(['sh', 'dh', 'mh']);

/** A change of what is wanted. */
interface VirtualServerChange {
  readonly id: VirtualServerId;
  /** 'unknown' if the kernel may differ from what was wanted. */
  readonly before: WantedVirtualServer | undefined | 'unknown';
  readonly wanted: WantedVirtualServer | undefined;
}

/**
 * Knows which virtual servers are in the kernel as the plan wanted them before a change, so that the change need not read
 * their real servers: IPVS can only list all of a virtual server. All others are read.
 */
export class KnownServers {
  readonly #tunnelled = new Set<VirtualServerKey>();
  readonly #waiting = new Set<VirtualServerKey>();
  readonly #mode: ProxyMode;
  readonly #ledger: Pick<DrainLedger, 'drainingOf'>;
  readonly #isFailing: (id: VirtualServerId) => boolean;
  readonly #readUpTo: number;

  /** @param isFailing whether the last operation on a virtual server has failed */
  constructor(
    mode: ProxyMode,
    ledger: Pick<DrainLedger, 'drainingOf'>,
    isFailing: (id: VirtualServerId) => boolean,
    readUpTo = READ_UP_TO,
  ) {
    this.#mode = mode;
    this.#ledger = ledger;
    this.#isFailing = isFailing;
    this.#readUpTo = readUpTo;
  }

  /**
   * Must be called with what was read. Tunnels may remain of an earlier forwarding method; the plan does not have
   * these.
   */
  note(found: ReadonlyMap<VirtualServerKey, FoundVirtualServer>): void {
    for (const [key, { realServers }] of found) {
      if (realServers.some(hasTunnel)) this.#tunnelled.add(key);
      else this.#tunnelled.delete(key);
    }
  }

  /**
   * Must be called while a change of these virtual servers is postponed: until then the kernel differs from the plan,
   * so an earlier change must read them.
   */
  hold(ids: Iterable<VirtualServerId>): void {
    for (const id of ids) this.#waiting.add(virtualServerKey(id));
  }

  /** Must be called when the postponed change was made or abandoned. */
  release(ids: Iterable<VirtualServerId>): void {
    for (const id of ids) this.#waiting.delete(virtualServerKey(id));
  }

  /** Returns what the kernel has of a virtual server before a change; undefined if that must be read. */
  find(change: VirtualServerChange): FoundVirtualServer | undefined {
    const before = this.#known(change);
    if (before === undefined) return undefined;
    const draining = this.#ledger.drainingOf(change.id).map((server) => ({ ...server, weight: 0 }));
    const { virtualServer, realServers } = before;
    return { virtualServer, realServers: draining.length === 0 ? realServers : [...realServers, ...draining] };
  }

  /** Returns how many virtual servers and real servers a change reads or writes. */
  cost(change: VirtualServerChange): number {
    if (change.wanted !== undefined && borrows(change.id, change.wanted.virtualServer)) return 1;
    const before = this.#known(change);
    const wanted = change.wanted?.realServers ?? [];
    return 1 + (before === undefined ? wanted.length : countDifferences(before.realServers, wanted));
  }

  #known({ id, before, wanted }: VirtualServerChange): WantedVirtualServer | undefined {
    if (!MODES[this.#mode].hasIpvs || before === undefined || before === 'unknown') return undefined;
    if (before.realServers.length <= this.#readUpTo) return undefined;
    const key = virtualServerKey(id);
    if (this.#tunnelled.has(key) || this.#waiting.has(key) || this.#isFailing(id)) return undefined;
    if (wanted !== undefined && keepsShare(wanted.virtualServer)) return undefined;
    return before.realServers.some(hasTunnel) ? undefined : before;
  }
}

function keepsShare({ scheduler, flags }: VirtualServer): boolean {
  return HASHING.has(scheduler) && (flags & VS_SCHED_FALLBACK) === 0;
}

/** Counts the real servers that are only in one list, or different. Both are sorted by address and port. */
function countDifferences(before: readonly RealServer[], after: readonly RealServer[]): number {
  let count = 0;
  for (let at = 0, other = 0; at < before.length || other < after.length;) {
    const [a, b] = [before[at], after[other]];
    const order = a === undefined ? 1 : b === undefined ? -1 : compareIp(a.address, b.address) || a.port - b.port;
    if (order !== 0 || (a !== undefined && b !== undefined && !hasSameServerSettings(a, b))) count += 1;
    if (order <= 0) at += 1;
    if (order >= 0) other += 1;
  }
  return count;
}
