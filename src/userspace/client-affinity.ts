/** Clients of one forwarded port beyond which the least recently used ones are forgotten. */
const MOST_CLIENTS = 65_536;

/** Which endpoint each client used last, for session affinity by client address. */
export class ClientAffinity<T> {
  /** By client address, the least recently used first. Times are those of the monotonic clock in milliseconds. */
  readonly #clients = new Map<string, { readonly endpoint: T; readonly usedAt: number }>();

  /** Returns the endpoint of a client that was last seen less than `timeoutMs` ago. */
  find(client: string, now: number, timeoutMs: number): T | undefined {
    const found = this.#clients.get(client);
    return found !== undefined && now - found.usedAt < timeoutMs ? found.endpoint : undefined;
  }

  remember(client: string, endpoint: T, now: number, timeoutMs: number): void {
    this.#clients.delete(client);
    this.#clients.set(client, { endpoint, usedAt: now });
    for (const [oldest, { usedAt }] of this.#clients) {
      if (now - usedAt < timeoutMs && this.#clients.size <= MOST_CLIENTS) break;
      this.#clients.delete(oldest);
    }
  }

  forgetClient(client: string): void {
    this.#clients.delete(client);
  }

  /** Forgets the clients of an endpoint that has left. */
  forget(endpoint: T): void {
    for (const [client, found] of this.#clients) if (found.endpoint === endpoint) this.#clients.delete(client);
  }

  get size(): number {
    return this.#clients.size;
  }
}
