import { DeviceHandle } from '../../src/kernel/linux/device-handle.ts';
import type { BatchConnection } from '../../src/kernel/linux/batch.ts';
import { IpsetHandle, type SetOp } from '../../src/kernel/ipvs/ipset-handle.ts';
import { IpvsHandle } from '../../src/kernel/ipvs/ipvs-handle.ts';
import type { AddressOp } from '../../src/kernel/linux/device-handle.ts';
import { NLM_F_ACK, align4 } from '../../src/netlink/codec/flags.ts';
import { type SocketConnection, openConnection } from '../../src/netlink/transport/connection.ts';
import { ipvsFamily } from '../../src/kernel/linux/generic-family.ts';
import type { Op, ServerOp } from '../../src/state/op.ts';
import type { BenchNode } from './bench-node.ts';

/** linux/netlink.h: NETLINK_GENERIC, NETLINK_NETFILTER, NETLINK_ROUTE. */
const PROTOCOLS = { ipvs: 16, ipset: 12, address: 0 } as const;
type Socket = keyof typeof PROTOCOLS;

interface Request {
  readonly socket: Socket;
  readonly bytes: Uint8Array;
  readonly segments: readonly number[];
}

/** The bytes that a first sync sends, to be sent again as they are: no kernel can be filled faster through this socket. */
export type Recording = readonly Request[];

export function isIpvs(op: Op): op is ServerOp {
  return op.kind.endsWith('-server');
}

function isAddress(op: Op): op is AddressOp {
  return op.kind.endsWith('-address');
}

function isSet(op: Op): op is SetOp {
  return !isIpvs(op) && !isAddress(op);
}

function openAll(node: BenchNode): Readonly<Record<Socket, SocketConnection>> & Disposable {
  const open = (socket: Socket): SocketConnection => openConnection({ protocol: PROTOCOLS[socket], netns: node.path });
  const sockets = { ipvs: open('ipvs'), ipset: open('ipset'), address: open('address') };
  return {
    ...sockets,
    [Symbol.dispose]: () => {
      for (const socket of Object.values(sockets)) socket.close();
    },
  };
}

/** Applies the operations in a fresh node and keeps every request. */
export async function record(node: BenchNode, ops: readonly Op[]): Promise<Recording> {
  using sockets = openAll(node);
  const requests: Request[] = [];
  const recorded = (socket: Socket): BatchConnection => ({
    sequence: (n) => sockets[socket].sequence(n),
    maxSegment: sockets[socket].maxSegment,
    receiveBuffer: sockets[socket].receiveBuffer,
    transact: (bytes, segments) => {
      requests.push({ socket, bytes: bytes.slice(), segments: [...segments] });
      return sockets[socket].transact(bytes, segments);
    },
  });
  const ignore = (): void => undefined;
  const id = await ipvsFamily(sockets.ipvs);
  await new IpsetHandle(recorded('ipset'), ignore).apply(ops.filter(isSet));
  await new IpvsHandle(recorded('ipvs'), recorded('ipvs'), id, ignore).apply(ops.filter(isIpvs));
  await new DeviceHandle(recorded('address'), ignore).apply(ops.filter(isAddress));
  return requests;
}

/** Milliseconds from the first byte to the last answer. */
export async function replay(node: BenchNode, recording: Recording): Promise<number> {
  using sockets = openAll(node);
  const start = performance.now();
  for (const { socket, bytes, segments } of recording) await sockets[socket].transact(bytes, segments);
  return performance.now() - start;
}

/**
 * Milliseconds of the same messages of IPVS and addresses, each sent by itself and its answer awaited before the next: what a
 * program pays that handles object after object. Messages for sets are left out.
 */
export async function replaySingly(node: BenchNode, recording: Recording): Promise<number> {
  const single = recording
    .filter(({ socket }) => socket !== 'ipset')
    .flatMap(({ socket, bytes }) => Array.from(messageBytes(bytes), (message) => ({ socket, message })));
  using sockets = openAll(node);
  const start = performance.now();
  for (const { socket, message } of single) await sockets[socket].transact(message, [message.length]);
  return performance.now() - start;
}

/** linux/netlink.h, struct nlmsghdr: length at 0, flags at 6. */
function* messageBytes(bytes: Uint8Array): IterableIterator<Uint8Array> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.length;) {
    const length = align4(view.getUint32(at, true));
    view.setUint16(at + 6, view.getUint16(at + 6, true) | NLM_F_ACK, true);
    yield bytes.subarray(at, at + length);
    at += length;
  }
}
