import { NFT_VERDICT } from '../../src/netlink/family/nf-tables/data.ts';
import { ElementList } from '../../src/netlink/family/nf-tables/element-list.ts';
import type { NftElement } from '../../src/netlink/family/nf-tables/element.ts';
import { endpointData, endpointKey, serviceKey } from '../../src/kernel/nftables/objects/keys.ts';
import { NftLink } from '../../src/kernel/nftables/port/nft-link.ts';
import type { NftMessage } from '../../src/kernel/nftables/port/nft-message.ts';
import type { SocketConnection } from '../../src/netlink/transport/connection.ts';
import type { BenchNode } from './bench-node.ts';
import { clusterIp, growthIp } from './large-cluster.ts';
import { openSocket } from './nft-floor.ts';
import { tcpServer } from './real-servers.ts';

interface Batch {
  readonly bytes: Uint8Array;
  readonly segments: readonly number[];
}

/**
 * Milliseconds of transactions with which a plain service grows and shrinks again, in turn: encoded before, sent as they
 * are. No program can change an endpoint faster through this socket.
 */
export async function replayGrowth(
  node: BenchNode,
  service: number,
  endpoints: number,
  runs: number,
): Promise<number[]> {
  const batches = [await encoded(growth(service, endpoints)), await encoded(shrinking(service, endpoints))];
  const socket = openSocket(node);
  const times: number[] = [];
  try {
    for (let run = 0; run < runs; run++) {
      for (const { bytes, segments } of batches) {
        const start = performance.now();
        const reply = await socket.transact(bytes, segments);
        times.push(performance.now() - start);
        if (reply.length > 0) throw new Error('the kernel refuses the transaction');
      }
    }
    return times;
  } finally {
    socket.close();
  }
}

function growth(service: number, endpoints: number): readonly NftMessage[] {
  const { key, last } = keys(service, endpoints);
  return [
    elements('delete-elements', 'service-ips', { key }),
    elements('new-elements', 'service-endpoints', { key: last, data: { value: endpointData(target(service)) } }),
    elements('new-elements', 'service-ips', { key, data: chosenOf(endpoints + 1) }),
  ];
}

function shrinking(service: number, endpoints: number): readonly NftMessage[] {
  const { key, last } = keys(service, endpoints);
  return [
    elements('delete-elements', 'service-ips', { key }),
    elements('delete-elements', 'service-endpoints', { key: last }),
    elements('new-elements', 'service-ips', { key, data: chosenOf(endpoints) }),
  ];
}

function keys(service: number, endpoints: number): { readonly key: Uint8Array; readonly last: Uint8Array } {
  const id = tcpServer(clusterIp(service, 4), 80);
  return { key: serviceKey(id), last: endpointKey(id, endpoints) };
}

function target(service: number): Parameters<typeof endpointData>[0] {
  return tcpServer(growthIp(service, 4), 8080);
}

function chosenOf(endpoints: number): NonNullable<NftElement['data']> {
  return { verdict: { code: NFT_VERDICT.goto, chain: `choose-${endpoints}` } };
}

function elements(kind: 'new-elements' | 'delete-elements', set: string, { key, data }: NftElement): NftMessage {
  const list = new ElementList();
  list.add(key, data);
  return { kind, set, elements: list };
}

/** What a link would send. */
async function encoded(messages: readonly NftMessage[]): Promise<Batch> {
  let sent: Batch | undefined;
  const connection: Pick<SocketConnection, 'sequence' | 'transact'> = {
    sequence: () => 1,
    transact: (bytes, segments) => {
      sent = { bytes: bytes.slice(), segments };
      return Promise.resolve(new Uint8Array());
    },
  };
  await new NftLink(connection as SocketConnection, () => undefined).commit(4, messages);
  if (sent === undefined) throw new Error('nothing was sent');
  return sent;
}
