import { closeSync, openSync } from 'node:fs';
import { type SocketConnection, openConnection } from '../../../netlink/transport/connection.ts';
import { dumpLinks } from '../../../netlink/family/route/link.ts';
import {
  type NamespaceLink,
  decodeNamespaceId,
  decodeNamespaceLink,
  getNamespaceId,
} from '../../../netlink/family/route/namespace-link.ts';
import { NETLINK_ROUTE } from '../../../netlink/netlink-protocol.ts';
import { askAll } from '../batch.ts';

/** The node's interfaces, as the node's own namespace reports them: nothing in a Pod can change what they say. */
export class PodLinks {
  readonly #connection: SocketConnection;
  readonly #links: readonly NamespaceLink[];

  private constructor(connection: SocketConnection, links: readonly NamespaceLink[]) {
    this.#connection = connection;
    this.#links = links;
  }

  static async read(): Promise<PodLinks> {
    const connection = openConnection({ protocol: NETLINK_ROUTE });
    try {
      const read = ({ payload }: { readonly payload: Uint8Array }): NamespaceLink => decodeNamespaceLink(payload);
      const links = await askAll(connection, [undefined], { operation: 'RTM_GETLINK', write: dumpLinks, read });
      return new PodLinks(connection, links);
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
