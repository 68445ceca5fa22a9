import { createRequire } from 'node:module';
import { type KernelAnswer, answerOf, messages } from '../../../src/netlink/netlink-message.ts';

// Messages written with a DataView, apart from the encoder of the project: what it gets wrong shows up here.

export const NETLINK_ROUTE = 0;
export const RTM_NEWLINK = 16;
export const RTM_GETLINK = 18;
export const RTM_NEWADDR = 20;
export const RTM_GETADDR = 22;
export const REQUEST = 0x01;
export const MULTI = 0x02;
export const ACK = 0x04;
export const DUMP_INTR = 0x10;
export const DUMP = 0x300;
export const NOOP = 1;
export const ERROR = 2;
export const DONE = 3;
/** No interface has this index. */
export const NO_LINK = 0x7fff_fff0;

/** Bytes from numbers, little-endian. */
export function u32(...values: number[]): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(values.length * 4));
  for (const [index, value] of values.entries()) view.setUint32(index * 4, value >>> 0, true);
  return new Uint8Array(view.buffer);
}

export interface Header {
  readonly type: number;
  readonly flags?: number;
  readonly sequence: number;
  /** Default: the true one. */
  readonly length?: number;
}

/** One message, padded to 4 bytes. */
export function message(
  { type, flags = 0, sequence, length }: Header,
  payload: Uint8Array = new Uint8Array(0),
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array((16 + payload.length + 3) & ~3);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, length ?? 16 + payload.length, true);
  view.setUint16(4, type, true);
  view.setUint16(6, flags, true);
  view.setUint32(8, sequence, true);
  bytes.set(payload, 16);
  return bytes;
}

export function concat(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.concat(parts));
}

/** NLMSG_ERROR for a request: errno 0 acknowledges it. */
export function answer(sequence: number, errno = 0, flags = 0x100): Uint8Array<ArrayBuffer> {
  return message({ type: ERROR, flags, sequence }, concat(u32(-errno), message({ type: 0, sequence })));
}

/** A message that a kernel passes over (linux/netlink.h: types below NLMSG_MIN_TYPE), but acknowledges if asked. */
export function noop(sequence: number, flags = ACK, payload?: Uint8Array): Uint8Array<ArrayBuffer> {
  return message({ type: NOOP, flags: REQUEST | flags, sequence }, payload);
}

/** struct ifinfomsg: family, pad, type, index, flags, change. */
export function getLink(sequence: number, index: number, flags = 0): Uint8Array<ArrayBuffer> {
  return message({ type: RTM_GETLINK, flags: REQUEST | flags, sequence }, u32(0, index, 0, 0));
}

/** struct ifaddrmsg: family, prefix length, flags, scope, index. */
export function getAddresses(sequence: number): Uint8Array<ArrayBuffer> {
  return message({ type: RTM_GETADDR, flags: REQUEST | DUMP, sequence }, u32(0, 0));
}

/** Attributes by type: the last of each. */
export function attributes(payload: Uint8Array, start: number): Map<number, Uint8Array> {
  const found = new Map<number, Uint8Array>();
  const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
  for (let at = start; at + 4 <= payload.length;) {
    const length = view.getUint16(at, true);
    found.set(view.getUint16(at + 2, true) & 0x3fff, payload.subarray(at + 4, at + length));
    at += (length + 3) & ~3;
  }
  return found;
}

/** test/native/socketpair.cc */
export interface Peer {
  pair(type: number): [number, number];
  send(fd: number, bytes: Uint8Array): boolean;
  receive(fd: number, timeoutMs: number): Uint8Array | undefined;
  close(fd: number): void;
  interruptOthers(): number;
  netlinkPair(): [number, number];
}

export const SOCK_STREAM = 1;
export const SOCK_DGRAM = 2;
export const SOCK_SEQPACKET = 5;

export function loadPeer(): Peer {
  return createRequire(import.meta.url)('../../../build/test/socketpair.node') as Peer;
}

/** The refusals in a reply by sequence number: a message that is not in it succeeded if the transaction did. */
export function refusals(reply: Uint8Array): Map<number, KernelAnswer> {
  const found = new Map<number, KernelAnswer>();
  for (const message of messages(reply)) {
    const answer = answerOf(message);
    if (answer !== undefined && answer.errno !== 0) found.set(answer.sequence, answer);
  }
  return found;
}
