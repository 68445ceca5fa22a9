import { createHash } from 'node:crypto';
import { type IpAddress, type IpFamily, ip4FromBytes, ip6FromBytes, isIp4 } from '../../../base/ip.ts';
import { toPort } from '../../../base/port.ts';
import { PROTOCOL_NUMBER, protocolFromNumber } from '../../../base/protocol.ts';
import { readU32 } from '../../../netlink/codec/bytes.ts';
import type { IpSetEntry, IpSetType } from '../../../state/ip-set.ts';
import type { Endpoint } from '../../../state/real-server.ts';
import type { VirtualServerId } from '../../../state/virtual-server.ts';

// A key of several fields fills whole registers of 4 bytes for each: an address, a protocol (1 byte and padding), a port
// (2 bytes and padding), all in network byte order. A number is in host byte order (little-endian, as in the codec).

/** The bytes of an address in a key. */
export function addressLength(family: IpFamily): number {
  return family === 4 ? 4 : 16;
}

const FIELD = 4;

/** The length of a virtual server's key: address, protocol and port. */
export function serviceKeyLength(family: IpFamily): number {
  return addressLength(family) + 2 * FIELD;
}

/** Byte by byte: this is called for every element, and a view would be a new object each time. */
function putAddress(bytes: Uint8Array, at: number, address: IpAddress): number {
  if (isIp4(address)) {
    bytes[at] = address >>> 24;
    bytes[at + 1] = address >>> 16;
    bytes[at + 2] = address >>> 8;
    bytes[at + 3] = address;
    return at + 4;
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  view.setBigUint64(at, address >> 64n);
  view.setBigUint64(at + 8, BigInt.asUintN(64, address));
  return at + 16;
}

/** A number in host byte order. */
function putNumber(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value;
  bytes[at + 1] = value >>> 8;
  bytes[at + 2] = value >>> 16;
  bytes[at + 3] = value >>> 24;
}

function putPort(bytes: Uint8Array, at: number, port: number): void {
  bytes[at] = port >> 8;
  bytes[at + 1] = port & 255;
}

export function addressAt(bytes: Uint8Array, at: number, family: IpFamily): IpAddress {
  return family === 4 ? ip4FromBytes(bytes, at) : ip6FromBytes(bytes, at);
}

export function portAt(bytes: Uint8Array, at: number): number {
  return ((bytes[at] as number) << 8) | (bytes[at + 1] as number);
}

function lengthOf(address: IpAddress): number {
  return isIp4(address) ? 4 : 16;
}

function putService(bytes: Uint8Array, { address, protocol, port }: VirtualServerId): number {
  const at = putAddress(bytes, 0, address);
  bytes[at] = PROTOCOL_NUMBER[protocol];
  putPort(bytes, at + FIELD, port);
  return at + 2 * FIELD;
}

export function serviceKey(id: VirtualServerId): Uint8Array {
  const bytes = new Uint8Array(lengthOf(id.address) + 2 * FIELD);
  putService(bytes, id);
  return bytes;
}

/** Returns the virtual server with whose key the bytes begin; undefined if none can have it. */
export function serviceOfKey(bytes: Uint8Array, family: IpFamily): VirtualServerId | undefined {
  const at = addressLength(family);
  const protocol = protocolFromNumber(bytes[at] as number);
  const port = toPort(portAt(bytes, at + FIELD));
  if (protocol === undefined || port === undefined) return undefined;
  return { address: addressAt(bytes, 0, family), protocol, port };
}

/** The key of a virtual server's endpoint with this index, from 0. */
export function endpointKey(id: VirtualServerId, index: number): Uint8Array {
  const bytes = new Uint8Array(lengthOf(id.address) + 3 * FIELD);
  const at = putService(bytes, id);
  putNumber(bytes, at, index);
  return bytes;
}

/** A shared list has 3 numbers, and each of its endpoints one more: its index. */
const LIST_LENGTH = 3 * FIELD;
export const SHARED_KEY_LENGTH = LIST_LENGTH + FIELD;

/** The numbers of the list that a virtual server lends: a part of a hash, as nft takes no more of them in a key of IPv6. */
export function listNumbers(id: VirtualServerId): readonly number[] {
  const hash = createHash('sha256').update(serviceKey(id)).digest();
  return [0, FIELD, 2 * FIELD].map((at) => readU32(hash, at));
}

/** The key of the endpoint with this index, from 0, of a shared list. */
export function sharedKey(list: readonly number[], index: number): Uint8Array {
  const bytes = new Uint8Array(SHARED_KEY_LENGTH);
  for (const [at, number] of list.entries()) putNumber(bytes, at * FIELD, number);
  putNumber(bytes, LIST_LENGTH, index);
  return bytes;
}

/** The first bytes of such a key, as text: those of one list have the same. */
export function listOfKey(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, LIST_LENGTH).toString('latin1');
}

export function sharedIndexOfKey(bytes: Uint8Array): number {
  return readU32(bytes, LIST_LENGTH);
}

/** The key of one of several, by its number from 0. */
export function indexKey(index: number): Uint8Array {
  const bytes = new Uint8Array(FIELD);
  putNumber(bytes, 0, index);
  return bytes;
}

export function indexOfKey(bytes: Uint8Array, family: IpFamily): number {
  return readU32(bytes, serviceKeyLength(family));
}

export function endpointData({ address, port }: Endpoint): Uint8Array {
  const bytes = new Uint8Array(lengthOf(address) + FIELD);
  putPort(bytes, putAddress(bytes, 0, address), port);
  return bytes;
}

/** Returns undefined if the port is 0. */
export function endpointOfData(bytes: Uint8Array, family: IpFamily): Endpoint | undefined {
  const port = toPort(portAt(bytes, addressLength(family)));
  return port === undefined ? undefined : { address: addressAt(bytes, 0, family), port };
}

export function addressKey(address: IpAddress): Uint8Array {
  const bytes = new Uint8Array(lengthOf(address));
  putAddress(bytes, 0, address);
  return bytes;
}

export function portKey(port: number): Uint8Array {
  const bytes = new Uint8Array(2);
  putPort(bytes, 0, port);
  return bytes;
}

/** The key of a virtual server together with a client's address. */
export function clientKey(id: VirtualServerId, client: IpAddress): Uint8Array {
  const bytes = new Uint8Array(serviceKeyLength(isIp4(client) ? 4 : 6) + lengthOf(client));
  putAddress(bytes, putService(bytes, id), client);
  return bytes;
}

/** The key of an entry of what Services share: an address, or an endpoint and its own address. */
export function entryKey(entry: IpSetEntry): Uint8Array {
  switch (entry.type) {
    case 'hash:ip':
      return addressKey(entry.address);
    case 'hash:ip,port,ip':
      return clientKey(entry, entry.address2);
    case 'hash:ip,port':
    case 'hash:ip,port,net':
    case 'bitmap:port':
      throw new Error(`nftables mode has no entries of the type ${entry.type}`);
  }
}

/** Returns undefined for a key that no Service can cause, such as port 0, and for that of a catch-all element. */
export function entryOfKey(type: IpSetType, bytes: Uint8Array, family: IpFamily): IpSetEntry | undefined {
  if (bytes.length === 0) return undefined;
  if (type === 'hash:ip') return { type, address: addressAt(bytes, 0, family) };
  const service = serviceOfKey(bytes, family);
  if (service === undefined || type !== 'hash:ip,port,ip') return undefined;
  return { type, ...service, address2: addressAt(bytes, serviceKeyLength(family), family) };
}
