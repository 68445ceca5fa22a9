import type { IpFamily } from '../../../net/ip.ts';
import { ipFamily } from '../../codec/address-family.ts';
import { decode, forEachAttribute } from '../../codec/decode.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { NLA_F_NET_BYTEORDER } from '../../codec/flags.ts';
import { be32, marked, raw, text, u8 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { nested } from '../../codec/nested.ts';
import { NETFILTER_HEADER_SIZE, readNetfilterFamily } from '../../codec/netfilter-message.ts';
import { fallback, optional, required, table } from '../../codec/table.ts';
import { IPSET_COMMAND, beginIpset } from './command.ts';
import { OPTIONS } from './definition.ts';
import { type IpsetEntry, decodeEntry } from './entry.ts';

/** A set as the kernel has it. */
export interface IpsetListing {
  readonly name: string;
  readonly type: string;
  /** undefined for types without addresses. */
  readonly family: IpFamily | undefined;
  readonly revision: number;
  readonly hashSize: number | undefined;
  readonly maxEntries: number | undefined;
  readonly firstPort: number | undefined;
  readonly lastPort: number | undefined;
  /** Rules and sets that refer to it. */
  readonly references: number;
  /** Bytes. */
  readonly memory: number;
  /** Empty for a type that we do not know, and where only headers were asked for. */
  readonly entries: readonly IpsetEntry[];
}

/** The types whose entries are made of the fields of IpsetEntry. */
const KNOWN_TYPES: ReadonlySet<string> = new Set([
  'hash:ip',
  'hash:ip,port',
  'hash:ip,port,ip',
  'hash:ip,port,net',
  'bitmap:port',
]);

const HEADER = table({
  ...OPTIONS,
  references: fallback('IPSET_ATTR_REFERENCES', 25, marked(be32), 0),
  memory: fallback('IPSET_ATTR_MEMSIZE', 26, marked(be32), 0),
});

const LISTING = table({
  name: required('IPSET_ATTR_SETNAME', 2, text),
  type: optional('IPSET_ATTR_TYPENAME', 3, text),
  revision: fallback('IPSET_ATTR_REVISION', 4, u8, 0),
  family: fallback('IPSET_ATTR_FAMILY', 5, u8, 0),
  header: optional('IPSET_ATTR_DATA', 7, nested(HEADER)),
  entries: optional('IPSET_ATTR_ADT', 8, raw),
});

/** linux/netfilter/ipset/ip_set.h. */
const IPSET_ATTR_FLAGS = 6;
const IPSET_FLAG_LIST_HEADER = 4;

export interface ListOptions {
  /** Only this set; ENOENT where it does not exist. Default: all. */
  readonly name?: string;
  /** Leave the entries out. */
  readonly headersOnly?: boolean;
}

/** Asks for sets with their entries. The messages of the answer, in order, are for `decodeSets` or a `setReader`. */
export function dumpSets(writer: MessageWriter, protocol: number, options: ListOptions = {}): number {
  const { name } = options;
  beginIpset(writer, IPSET_COMMAND.list, name === undefined ? { protocol } : { protocol, name });
  if (options.headersOnly === true) {
    const mark = writer.beginAttribute(IPSET_ATTR_FLAGS | NLA_F_NET_BYTEORDER);
    writer.be32(IPSET_FLAG_LIST_HEADER);
    writer.endAttribute(mark);
  }
  return writer.endDump();
}

/** Takes the messages of a listing one by one, in order. */
export interface SetReader {
  /** Throws DecodeError. */
  read(payload: Uint8Array): void;
  /** What was read so far; the last set may still grow. */
  readonly sets: readonly IpsetListing[];
}

/**
 * Puts the messages of one listing together: the kernel says the header of a set once, and its entries in as many messages as
 * they need.
 */
export function setReader(): SetReader {
  const sets: IpsetListing[] = [];
  // The set that the messages are about just now.
  let name: string | undefined;
  let known = false;
  let entries: IpsetEntry[] = [];
  const read = (payload: Uint8Array): void => {
    readNetfilterFamily(payload);
    const part = decode(LISTING, payload, NETFILTER_HEADER_SIZE);
    const { type, header, revision } = part;
    if (type !== undefined && header !== undefined) {
      name = part.name;
      known = KNOWN_TYPES.has(type);
      entries = [];
      sets.push({ ...header, name, type, family: ipFamily(part.family), revision, entries });
    } else if (part.name !== name) {
      throw new DecodeError('IPSET_ATTR_TYPENAME', NETFILTER_HEADER_SIZE, `missing for ${part.name}`);
    }
    if (known && part.entries !== undefined) decodeEntries(part.entries, entries);
  };
  return { read, sets };
}

/** Reads a whole listing. Throws DecodeError. */
export function decodeSets(payloads: Iterable<Uint8Array>): readonly IpsetListing[] {
  const reader = setReader();
  for (const payload of payloads) reader.read(payload);
  return reader.sets;
}

function decodeEntries(bytes: Uint8Array, into: IpsetEntry[]): void {
  forEachAttribute(bytes, 0, bytes.length, (_id, start, end) => into.push(decodeEntry(bytes, start, end)));
}
