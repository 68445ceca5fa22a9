import type { IpFamily } from '../../../base/ip.ts';
import { ipFamily } from '../../codec/address-family.ts';
import { decode } from '../../codec/attribute-table.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { NETFILTER } from '../../codec/header.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { type IpsetEntry, decodeEntries } from './entry.ts';
import { IPSET_COMMAND, IPSET_MESSAGE, beginIpset } from './message.ts';

/** A set in the kernel. */
export interface IpsetListing {
  readonly name: string;
  readonly type: string;
  /** undefined for types without addresses. */
  readonly family: IpFamily | undefined;
  /** undefined for types without a limit. */
  readonly maxEntries: number | undefined;
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

/** linux/netfilter/ipset/ip_set.h. */
const IPSET_FLAG_LIST_HEADER = 4;

export interface SetListOptions {
  /** Lists only this set; ENOENT if it does not exist. Default: all sets. */
  readonly name?: string;
  /** Whether to omit the entries. */
  readonly headersOnly?: boolean;
}

/** Writes a request for sets with their entries. A `setReader` decodes the replies, in order. */
export function dumpSets(writer: MessageWriter, protocol: number, { name, headersOnly }: SetListOptions = {}): number {
  const flags = headersOnly === true ? IPSET_FLAG_LIST_HEADER : undefined;
  beginIpset(writer, IPSET_COMMAND.list, { protocol, name, flags });
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
  let entries: IpsetEntry[] = [];
  const read = (payload: Uint8Array): void => {
    const { name, type, family = 0, options, entries: more } = decode(IPSET_MESSAGE, payload, NETFILTER.size);
    if (name !== undefined && type !== undefined && options !== undefined) {
      entries = [];
      sets.push({ name, type, family: ipFamily(family), maxEntries: options.maxEntries, entries });
    }
    const set = sets.at(-1);
    if (name === undefined || set?.name !== name) {
      throw new DecodeError('IPSET_ATTR_TYPENAME', NETFILTER.size, `missing for ${name}`);
    }
    if (more !== undefined && KNOWN_TYPES.has(set.type)) entries.push(...decodeEntries(more));
  };
  return { read, sets };
}
