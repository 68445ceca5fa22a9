import { closeSync, openSync } from 'node:fs';
import { type SocketConnection, openConnection } from '../../../netlink/transport/connection.ts';
import type { Link } from '../../../netlink/family/route/link.ts';
import { decodeNamespaceId, getNamespaceId } from '../../../netlink/family/route/namespace-id.ts';
import { NETLINK_ROUTE } from '../../../netlink/netlink-protocol.ts';
import { askAll } from '../batch.ts';
import { readLinks } from '../device-handle.ts';

/** The node's interfaces, as the node's own namespace reports them: nothing in a Pod can change what they say. */
export class PodLinks {
  readonly #connection: SocketConnection;
  readonly #links: readonly Link[];

  private constructor(connection: SocketConnection, links: readonly Link[]) {
    this.#connection = connection;
    this.#links = links;
  }

  static async read(): Promise<PodLinks> {
    const connection = openConnection({ protocol: NETLINK_ROUTE });
    try {
      return new PodLinks(connection, await readLinks(connection));
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  close(): void {
    this.#connection.close();
  }

  /** Returns the interfaces whose other end is in the namespace of this file, and the bridges that they belong to. */
  async leadingTo(path: string): Promise<readonly string[]> {
    const id = await this.#idOf(path);
    const links = id === undefined ? [] : this.#links.filter(({ namespaceId }) => namespaceId === id);
    const masters = new Set(links.map(({ master }) => master));
    return [...links, ...this.#links.filter(({ index }) => masters.has(index))].map(({ name }) => name);
  }

  async #idOf(path: string): Promise<number | undefined> {
    const file = openSync(path, 'r');
    try {
      const [id] = await askAll(this.#connection, [file], {
        operation: 'RTM_GETNSID',
        write: getNamespaceId,
        read: ({ payload }) => decodeNamespaceId(payload),
      });
      return id;
    } finally {
      closeSync(file);
    }
  }
}
