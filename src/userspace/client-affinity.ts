/** Clients beyond which the least recently used ones are forgotten. */
const MOST_CLIENTS = 65_536;

/** Which endpoint each client of a forwarded port used last, for session affinity by client address. */
export class ClientAffinity<T> {
  readonly #most: number;
  /** By port and client address, the least recently used first. Times are those of the monotonic clock in milliseconds. */
  readonly #clients = new Map<string, { readonly endpoint: T; readonly usedAt: number }>();

  /** @param most bound of the clients of all ports together */
  constructor(most = MOST_CLIENTS) {
    this.#most = most;
  }

  /** Returns the endpoint of a client that was last seen less than `timeoutMs` ago. It may have left meanwhile. */
  find(port: string, client: string, now: number, timeoutMs: number): T | undefined {
    const found = this.#clients.get(nameOf(port, client));
    return found !== undefined && now - found.usedAt < timeoutMs ? found.endpoint : undefined;
  }

  remember(port: string, client: string, endpoint: T, now: number): void {
    const name = nameOf(port, client);
    this.#clients.delete(name);
    this.#clients.set(name, { endpoint, usedAt: now });
    const [oldest] = this.#clients.keys();
    if (oldest !== undefined && this.#clients.size > this.#most) this.#clients.delete(oldest);
  }

  forget(port: string, client: string): void {
    this.#clients.delete(nameOf(port, client));
  }
}

function nameOf(port: string, client: string): string {
  return `${client} ${port}`;
}
