import type { EngineLimits } from './engine-limits.ts';

/** Which bound is reached: of a client, of a Service, of the Services of a namespace, or of all. */
export type Full = 'client' | 'service' | 'namespace' | 'all';

/** The part of the connections to a Service that one client address may have. */
const CLIENT_PART = 1 / 4;
/** The part of all connections that the Services of one namespace may have. */
const NAMESPACE_PART = 1 / 2;

/** Counts connections and UDP clients against the limits. */
export class Admission {
  readonly #limits: Pick<EngineLimits, 'mostOfService' | 'mostInAll'>;
  readonly #counts = new Map<string, number>();

  constructor(limits: Pick<EngineLimits, 'mostOfService' | 'mostInAll'>) {
    this.#limits = limits;
  }

  /**
   * Admits one more of a Service. Returns the function that ends it, or which bound is reached.
   *
   * @param service "namespace/name"
   * @param client its address; those at loopback addresses, which are this node, have no bound of their own
   */
  admit(service: string, client: string): (() => void) | Full {
    const { mostOfService, mostInAll } = this.#limits;
    const bounds: readonly (readonly [Full, name: string, most: number])[] = [
      ['all', '', mostInAll],
      ['namespace', `namespace ${service.split('/', 1)[0]}`, Math.ceil(mostInAll * NAMESPACE_PART)],
      ['service', `service ${service}`, mostOfService],
      ['client', `client ${service} ${client}`, isLoopback(client) ? Infinity : Math.ceil(mostOfService * CLIENT_PART)],
    ];
    // The narrowest first: it says who is to give way.
    const full = bounds.findLast(([, name, most]) => (this.#counts.get(name) ?? 0) >= most);
    if (full !== undefined) return full[0];
    for (const [, name] of bounds) this.#change(name, 1);
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      for (const [, name] of bounds) this.#change(name, -1);
    };
  }

  #change(name: string, by: 1 | -1): void {
    const count = (this.#counts.get(name) ?? 0) + by;
    if (count === 0) this.#counts.delete(name);
    else this.#counts.set(name, count);
  }
}

function isLoopback(client: string): boolean {
  return client === '::1' || client.startsWith('127.');
}
