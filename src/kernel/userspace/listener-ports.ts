import type { Port } from '../../base/port.ts';

/** The ports at which the engine listens: below those of node ports (30000) and of outgoing connections (32768). */
const FIRST = 20_000;
const COUNT = 10_000;

/** Which of these ports are in use, at one address and of one protocol. */
export class ListenerPorts {
  readonly #taken = new Set<Port>();
  #next = 0;

  /** Takes a port, if possible this one; undefined if all are taken. A port that was released is not taken again soon. */
  take(wanted?: Port): Port | undefined {
    const port = wanted !== undefined && isListenerPort(wanted) && !this.#taken.has(wanted) ? wanted : this.#free();
    if (port !== undefined) this.#taken.add(port);
    return port;
  }

  release(port: Port): void {
    this.#taken.delete(port);
  }

  #free(): Port | undefined {
    if (this.#taken.size >= COUNT) return undefined;
    for (;;) {
      const port = (FIRST + (this.#next++ % COUNT)) as Port;
      if (!this.#taken.has(port)) return port;
    }
  }
}

function isListenerPort(port: Port): boolean {
  return port >= FIRST && port < FIRST + COUNT;
}
