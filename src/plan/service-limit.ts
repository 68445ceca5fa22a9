import type { RealServer } from '../state/real-server.ts';
import type { PlanWarning } from './service-plan.ts';

/**
 * How many virtual servers and real servers one Service may have on a node. Anybody who may write a Service chooses its ports
 * and external IPs, and each endpoint is a real server at each of them: without a limit, one Service could fill the memory
 * of all nodes.
 */
export const MOST_SERVERS = 250_000;

/** The reason of the warning about a Service that exceeds the limit. */
export const TOO_MANY_SERVERS = 'too-many-servers';

/** Counts what a Service needs, in the order in which it is planned. */
export class ServiceLimit {
  /** The lists that were counted; undefined: each counts again at each address. */
  readonly #shared: Set<readonly RealServer[]> | undefined;
  #used = 0;
  #refused = 0;

  /** @param sharesLists whether the addresses of a port share a list of real servers, so that it counts once */
  constructor(sharesLists: boolean) {
    this.#shared = sharesLists ? new Set() : undefined;
  }

  /** Whether a virtual server with these real servers may be planned. A smaller one may fit after one that does not. */
  admits(realServers: readonly RealServer[]): boolean {
    const needed = 1 + (this.#shared?.has(realServers) === true ? 0 : realServers.length);
    if (this.#used + needed > MOST_SERVERS) {
      this.#refused += 1;
      return false;
    }
    this.#shared?.add(realServers);
    this.#used += needed;
    return true;
  }

  get warning(): PlanWarning | undefined {
    if (this.#refused === 0) return undefined;
    const message =
      `${this.#refused} addresses and ports are not served, because the Service would have more than ${MOST_SERVERS} ` +
      `virtual servers and real servers (${this.#shared === undefined ? 'addresses x ports x endpoints' : 'addresses x ports + ports x endpoints'}) ` +
      'on each node: divide it into several Services';
    return { reason: TOO_MANY_SERVERS, message };
  }
}
