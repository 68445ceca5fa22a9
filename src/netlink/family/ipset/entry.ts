import { type Ip4, type IpAddress, formatIp, ip6FromBytes, isIp4 } from '../../../base/ip.ts';
import { readBe32 } from '../../codec/bytes.ts';
import { decode, findPayload, payloadEnd } from '../../codec/decode.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { encode } from '../../codec/encode.ts';
import { NLA_F_NESTED, NLA_F_NET_BYTEORDER, NLM_F_EXCL } from '../../codec/flags.ts';
import { type Kind, be16, be32, marked, u8 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { optional, table } from '../../codec/table.ts';
import { template } from '../../codec/template.ts';
import { IPSET_COMMAND, type IpsetCommand, beginIpset } from './command.ts';

/** An ipset entry. The type of its set determines which fields it has. */
export interface IpsetEntry {
  readonly address?: IpAddress | undefined;
  readonly port?: number | undefined;
  /** IPPROTO_*. */
  readonly protocol?: number | undefined;
  /** The second address, or the network, of hash:ip,port,ip and hash:ip,port,net. */
  readonly address2?: IpAddress | undefined;
  /** Prefix length of the network. Default: a single address. */
  readonly prefix2?: number | undefined;
}

/** linux/netfilter/ipset/ip_set.h: IPSET_ATTR_IPADDR_IPV4, IPSET_ATTR_IPADDR_IPV6. */
const IPADDR_IPV4 = 1;
const IPADDR_IPV6 = 2;

/** A nested attribute with one attribute, whose id gives the family. */
const address: Kind<IpAddress> = {
  size: undefined,
  flags: NLA_F_NESTED,
  write: (writer, value) => {
    const mark = writer.beginAttribute((isIp4(value) ? IPADDR_IPV4 : IPADDR_IPV6) | NLA_F_NET_BYTEORDER);
    writer.address(value);
    writer.endAttribute(mark);
  },
  read: (bytes, start, end) => {
    const v4 = findPayload(bytes, start, end, IPADDR_IPV4);
    if (v4 >= 0 && payloadEnd(bytes, v4) - v4 === 4) return readBe32(bytes, v4) as Ip4;
    const v6 = findPayload(bytes, start, end, IPADDR_IPV6);
    if (v6 >= 0 && payloadEnd(bytes, v6) - v6 === 16) return ip6FromBytes(bytes, v6);
    throw new DecodeError('IPSET_ATTR_IP', start, 'neither an IPv4 nor an IPv6 address');
  },
  show: formatIp,
};

export const ENTRY = table({
  address: optional('IPSET_ATTR_IP', 1, address),
  port: optional('IPSET_ATTR_PORT', 4, marked(be16)),
  protocol: optional('IPSET_ATTR_PROTO', 7, u8),
  address2: optional('IPSET_ATTR_IP2', 20, address),
  prefix2: optional('IPSET_ATTR_CIDR2', 21, u8),
});

/** linux/netfilter/ipset/ip_set.h. */
const IPSET_ATTR_DATA = 7;
const IPSET_ATTR_ADT = 8;
const IPSET_ATTR_LINENO = 9;
const LINE = marked(be32);

// The kernel copies the whole message into an error reply, so messages are small. At some 300 entries the overhead of a
// message is negligible. A nested attribute is limited to 65,535 bytes.
const MESSAGE_BYTES = 16 * 1024;

export interface EntryOptions {
  /** Fail if an entry to add exists or an entry to delete does not. */
  readonly exclusive?: boolean;
}

/** The template of an entry with its line number, and the offsets of the values to patch (-1: absent). */
interface Layout {
  readonly words: Uint32Array;
  readonly address: number;
  readonly port: number;
  readonly protocol: number;
  readonly address2: number;
  readonly prefix2: number;
  readonly line: number;
}

/** By the fields that an entry has (`shapeOf`); created on first use. */
const LAYOUTS: Layout[] = [];

function shapeOf({ address: first, port, protocol, address2: second, prefix2 }: IpsetEntry): number {
  const fields = (port === undefined ? 0 : 1) | (protocol === undefined ? 0 : 2) | (prefix2 === undefined ? 0 : 4);
  return fields | (familyBits(first) << 3) | (familyBits(second) << 5);
}

function familyBits(value: IpAddress | undefined): number {
  return value === undefined ? 0 : isIp4(value) ? IPADDR_IPV4 : IPADDR_IPV6;
}

function layoutOf(example: IpsetEntry): Layout {
  const { words, offset } = template((writer) => {
    const mark = writer.beginAttribute(IPSET_ATTR_DATA | NLA_F_NESTED);
    encode(writer, ENTRY, example);
    encodeLine(writer, 0);
    writer.endAttribute(mark);
  });
  const { rows } = ENTRY;
  const at = (...ids: readonly number[]): number => offset(0, IPSET_ATTR_DATA, ...ids);
  return {
    words,
    address: at(rows.address.id, familyBits(example.address)),
    port: at(rows.port.id),
    protocol: at(rows.protocol.id),
    address2: at(rows.address2.id, familyBits(example.address2)),
    prefix2: at(rows.prefix2.id),
    line: at(IPSET_ATTR_LINENO),
  };
}

function encodeEntry(writer: MessageWriter, entry: IpsetEntry, line: number): void {
  const layout = (LAYOUTS[shapeOf(entry)] ??= layoutOf(entry));
  const at = writer.copy(layout.words);
  if (entry.address !== undefined) writer.patchAddress(at + layout.address, entry.address);
  if (entry.port !== undefined) writer.patchBe16(at + layout.port, entry.port);
  if (entry.protocol !== undefined) writer.patchU8(at + layout.protocol, entry.protocol);
  if (entry.address2 !== undefined) writer.patchAddress(at + layout.address2, entry.address2);
  if (entry.prefix2 !== undefined) writer.patchU8(at + layout.prefix2, entry.prefix2);
  writer.patchBe32(at + layout.line, line);
}

function encodeLine(writer: MessageWriter, line: number): void {
  const mark = writer.beginAttribute(IPSET_ATTR_LINENO | LINE.flags);
  LINE.write(writer, line);
  writer.endAttribute(mark);
}

function encodeEntries(
  writer: MessageWriter,
  command: IpsetCommand,
  names: { readonly protocol: number; readonly name: string },
  entries: readonly IpsetEntry[],
  from: number,
  options: EntryOptions,
): number {
  const limit = writer.length + MESSAGE_BYTES;
  beginIpset(writer, command, names, options.exclusive === true ? NLM_F_EXCL : 0);
  // The kernel overwrites this with the line number of the failing entry.
  encodeLine(writer, 0);
  const list = writer.beginAttribute(IPSET_ATTR_ADT | NLA_F_NESTED);
  let next = from;
  for (; next < entries.length && writer.length < limit; next++) {
    encodeEntry(writer, entries[next] as IpsetEntry, next + 1);
  }
  writer.endAttribute(list);
  writer.end();
  return next;
}

/**
 * Appends one message that adds entries from `entries[from]` on, as many as fit. Returns the index of the first that
 * did not. The kernel stops at the first entry that it refuses: `decodeFailedEntry` returns its index, and the caller
 * may continue after it. The entries before it are in the set.
 */
export function addEntries(
  writer: MessageWriter,
  protocol: number,
  name: string,
  entries: readonly IpsetEntry[],
  from = 0,
  options: EntryOptions = {},
): number {
  return encodeEntries(writer, IPSET_COMMAND.add, { protocol, name }, entries, from, options);
}

/** Like addEntries, but deletes entries. */
export function deleteEntries(
  writer: MessageWriter,
  protocol: number,
  name: string,
  entries: readonly IpsetEntry[],
  from = 0,
  options: EntryOptions = {},
): number {
  return encodeEntries(writer, IPSET_COMMAND.delete, { protocol, name }, entries, from, options);
}

/** Decodes one entry (a nested IPSET_ATTR_DATA) of a listing. Throws DecodeError. */
export function decodeEntry(bytes: Uint8Array, start: number, end: number): IpsetEntry {
  return decode(ENTRY, bytes, start, end);
}
