import { NftLink } from '../../src/kernel/nftables/port/nft-link.ts';
import type { NftPort } from '../../src/kernel/nftables/port/nft-port.ts';
import { nftablesKernelOf } from '../../src/kernel/nftables/nftables-kernel.ts';
import { NodeKernel } from '../../src/kernel/linux/node-kernel.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { type SocketConnection, openConnection } from '../../src/netlink/transport/connection.ts';
import { NETLINK_NETFILTER } from '../../src/netlink/netlink-protocol.ts';
import { type BenchNode, Driver } from './bench-node.ts';

/** As in the daemon: a transaction is one datagram. */
const SEND_BUFFER = 512 * 1024 * 1024;

interface Batch {
  readonly bytes: Uint8Array;
  readonly segments: readonly number[];
}

/** The transactions of a first sync, to be sent again as they are: no table can be filled faster through this socket. */
export type NftRecording = readonly Batch[];

export function openSocket(node: BenchNode): SocketConnection {
  return openConnection({ protocol: NETLINK_NETFILTER, netns: node.path, sendBuffer: SEND_BUFFER });
}

/** Keeps the bytes of each transaction. They do not name a generation of the ruleset, which another table does not have. */
class RecordingLink extends NftLink {
  readonly batches: Batch[] = [];
  readonly #writing: NftPort;

  constructor(socket: SocketConnection) {
    const ignore = (): void => undefined;
    super(socket, ignore);
    const recorded: SocketConnection = {
      sequence: (n) => socket.sequence(n),
      transact: async (bytes, segments) => {
        this.batches.push({ bytes: bytes.slice(), segments: [...segments] });
        return await socket.transact(bytes, segments);
      },
      counters: socket.counters,
      port: socket.port,
      maxSegment: socket.maxSegment,
      receiveBuffer: socket.receiveBuffer,
      close: () => socket.close(),
    };
    this.#writing = new NftLink(recorded, ignore);
  }

  override async commit(...[family, messages]: Parameters<NftPort['commit']>): ReturnType<NftPort['commit']> {
    return await this.#writing.commit(family, messages);
  }
}

/** Fills the tables of a node, and keeps what was sent for it. */
export async function recordTransactions(node: BenchNode, events: readonly SourceEvent[]): Promise<NftRecording> {
  const socket = openSocket(node);
  const link = new RecordingLink(socket);
  const kernel = nftablesKernelOf(new NodeKernel({ log: node.log, netns: node.path }), link);
  try {
    const driver = new Driver(kernel);
    await driver.take(events);
    await driver.reconciler.stop();
    return link.batches;
  } finally {
    await kernel.close();
    socket.close();
  }
}

/** Milliseconds from the first byte to the last answer. */
export async function replayTransactions(node: BenchNode, recording: NftRecording): Promise<number> {
  const socket = openSocket(node);
  try {
    const start = performance.now();
    for (const { bytes, segments } of recording) await socket.transact(bytes, segments);
    return performance.now() - start;
  } finally {
    socket.close();
  }
}
