/** Below the node ports and the ports that the kernel selects for others; no part of a cluster listens on them. */
const FIRST = 11_000;
const COUNT = 18_000;

/**
 * The local ports of a client's connections: each is used again as late as possible, and never while a long connection has
 * it. IPVS finds the connection of a reply by client address, client port and real server. If a port were used for two
 * virtual servers with the same real servers, one of the connections could lose its replies, with every service proxy.
 */
export class LocalPorts {
  readonly #kept = new Set<number>();
  #next = 0;

  /** For a connection that ends soon. */
  take(): number {
    for (;;) {
      const port = FIRST + (this.#next++ % COUNT);
      if (!this.#kept.has(port)) return port;
    }
  }

  /** For a long connection, until `release`. */
  keep(): number {
    const port = this.take();
    this.#kept.add(port);
    return port;
  }

  release(port: number): void {
    this.#kept.delete(port);
  }
}
