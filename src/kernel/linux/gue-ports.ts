import { constants } from 'node:os';
import { type SocketConnection, openConnection } from '../../netlink/transport/connection.ts';
import {
  FOU_FAMILY_NAME,
  addGuePort,
  decodeGuePort,
  deleteGuePort,
  dumpGuePorts,
} from '../../netlink/family/fou/gue-port.ts';
import { NETLINK_GENERIC } from '../../netlink/netlink-protocol.ts';
import { type GuePort, type PodOp, formatPodOp } from '../../state/pod-network.ts';
import { askAll, runBatch } from './batch.ts';
import { genericFamily } from './generic-family.ts';
import { reasonOf } from '../../state/outcome.ts';

const { EALREADY, ENOENT } = constants.errno;
/** Errors that say that the change was made already. */
const DONE: ReadonlySet<number> = new Set([EALREADY, ENOENT]);

export type GuePortOp = Extract<PodOp, { kind: 'add-gue-port' | 'delete-gue-port' }>;

/** Loads the module fou, which the kernel does not do itself. Resolves to why that failed. */
export type LoadFou = () => Promise<string | undefined>;

/** The UDP ports of a network namespace at which the kernel receives GUE (Foo over UDP). */
export class GuePorts {
  readonly #netns: string;
  readonly #loadFou: LoadFou;

  constructor(netns: string, loadFou: LoadFou) {
    this.#netns = netns;
    this.#loadFou = loadFou;
  }

  /** Returns none if the kernel has no FOU. Throws NetlinkError or DecodeError. */
  async read(): Promise<readonly GuePort[]> {
    return await this.#withSocket(async (connection) => {
      const family = await genericFamily(connection, FOU_FAMILY_NAME);
      if (family === undefined) return [];
      return await askAll(connection, [family], {
        operation: 'FOU_CMD_GET',
        write: dumpGuePorts,
        read: ({ payload }) => decodeGuePort(payload),
      });
    });
  }

  /** Returns a sentence for each change that failed. */
  async apply(ops: readonly GuePortOp[]): Promise<readonly string[]> {
    if (ops.length === 0) return [];
    return await this.#withSocket(async (connection) => {
      const family = await this.#loadedFamily(connection);
      if (typeof family === 'string') return ops.map((op) => `${formatPodOp(op)}: ${family}`);
      const refused = await runBatch(
        connection,
        ops,
        (writer, { kind, ...port }) =>
          kind === 'add-gue-port' ? addGuePort(writer, family, port) : deleteGuePort(writer, family, port),
        () => undefined,
      );
      return refused
        .filter(({ errno }) => !DONE.has(errno))
        .map((refusal) => `${formatPodOp(refusal.item)}: ${reasonOf(refusal)}`);
    });
  }

  /** Returns the ID of the generic netlink family, or why there is none. */
  async #loadedFamily(connection: SocketConnection): Promise<number | string> {
    const found = await genericFamily(connection, FOU_FAMILY_NAME);
    if (found !== undefined) return found;
    const reason = (await this.#loadFou()) ?? 'modprobe succeeded, but the kernel still lacks it';
    const loaded = await genericFamily(connection, FOU_FAMILY_NAME);
    return loaded ?? `the kernel has no FOU, and loading it failed: ${reason}. Run \`modprobe fou\` on the node`;
  }

  async #withSocket<T>(use: (connection: SocketConnection) => Promise<T>): Promise<T> {
    const connection = openConnection({ protocol: NETLINK_GENERIC, netns: this.#netns });
    try {
      return await use(connection);
    } finally {
      connection.close();
    }
  }
}
