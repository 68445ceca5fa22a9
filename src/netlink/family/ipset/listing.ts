import type { IpFamily } from '../../../base/ip.ts';
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

/** A set in the kernel. */
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
  /** Number of rules and sets that refer to it. */
  readonly references: number;
  /** Bytes. */
  readonly memory: number;
  /** Empty for an unsupported type, or if only headers were requested. */
  readonly entries: readonly IpsetEntry[];
}

/** The types whose entries an IpsetEntry can represent. */
const KNOWN_TYPES: ReadonlySet<string> = new Set([
  'hash:ip',
  'hash:ip,port',
  'hash:ip,port,ip',
  'hash:ip,port,net',
  'bitmap:port',
]);

export const HEADER = table({
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
  /** Only this set; ENOENT if it does not exist. Default: all. */
  readonly name?: string;
  /** Omit the entries. */
  readonly headersOnly?: boolean;
}

/** Writes a request for sets with their entries. `decodeSets` or a `setReader` decodes the replies, in order. */
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

/** Decodes the messages of a listing one by one, in order. */
export interface SetReader {
  /** Throws DecodeError. */
  read(payload: Uint8Array): void;
  /** The sets read so far; the last one may be incomplete. */
  readonly sets: readonly IpsetListing[];
}

/**
 * Assembles sets from the messages of one listing: the kernel sends a set's header once, and its entries in as many
 * messages as needed.
 */
export function setReader(): SetReader {
  const sets: IpsetListing[] = [];
  // The set of the current message.
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

/** Decodes a whole listing. Throws DecodeError. */
export function decodeSets(payloads: Iterable<Uint8Array>): readonly IpsetListing[] {
  const reader = setReader();
  for (const payload of payloads) reader.read(payload);
  return reader.sets;
}

function decodeEntries(bytes: Uint8Array, into: IpsetEntry[]): void {
  forEachAttribute(bytes, 0, bytes.length, (_id, start, end) => into.push(decodeEntry(bytes, start, end)));
}
