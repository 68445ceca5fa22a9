import type { IpAddress, IpFamily } from '../../base/ip.ts';
import { familyOf } from '../../base/ip.ts';
import type { Port } from '../../base/port.ts';
import type { Protocol } from '../../base/protocol.ts';
import type { VirtualServerId } from '../../state/virtual-server.ts';
import { ListenerPorts } from './listener-ports.ts';

/** Gives virtual servers the ports at which the engine listens for them: those of TCP share one for each family. */
export class EngineListeners {
  readonly #pools = new Map<string, ListenerPorts>();
  readonly #ofTcp = new Map<IpFamily, Port>();

  /**
   * Returns the port for a virtual server; undefined if all are taken.
   *
   * @param before the one that it has, or that the table has
   */
  take({ address, protocol }: VirtualServerId, before?: Port): Port | undefined {
    const family = familyOf(address);
    const pool = this.#pool(family, protocol);
    if (protocol === 'UDP') return pool.take(before);
    const port = this.#ofTcp.get(family) ?? pool.take(before);
    if (port !== undefined) this.#ofTcp.set(family, port);
    return port;
  }

  /** A virtual server does not need its port any more. */
  release({ address, protocol }: VirtualServerId, port: Port): void {
    if (protocol === 'UDP') this.#pool(familyOf(address), protocol).release(port);
  }

  /** Another program has a port: nothing shall be led there. It stays taken. */
  avoid({
    address,
    port,
    protocol,
  }: {
    readonly address: IpAddress;
    readonly port: Port;
    readonly protocol: Protocol;
  }): void {
    const family = familyOf(address);
    if (protocol === 'TCP' && this.#ofTcp.get(family) === port) this.#ofTcp.delete(family);
  }

  #pool(family: IpFamily, protocol: Protocol): ListenerPorts {
    const name = `${protocol} ${family}`;
    let pool = this.#pools.get(name);
    if (pool === undefined) this.#pools.set(name, (pool = new ListenerPorts()));
    return pool;
  }
}
