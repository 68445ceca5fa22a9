import type { IpFamily } from '../../../base/ip.ts';
import { AF_UNSPEC, addressFamily, ipFamily } from '../../codec/address-family.ts';
import { decode } from '../../codec/decode.ts';
import { encode } from '../../codec/encode.ts';
import { NLM_F_CREATE, NLM_F_EXCL } from '../../codec/flags.ts';
import { be16, be32, marked, text, u8 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { nested } from '../../codec/nested.ts';
import { NETFILTER_HEADER_SIZE, readNetfilterFamily } from '../../codec/netfilter-message.ts';
import { fallback, optional, required, table } from '../../codec/table.ts';
import { IPSET_COMMAND, beginIpset } from './command.ts';

/** A set to create. */
export interface IpsetDefinition {
  /** At most 31 bytes. */
  readonly name: string;
  /** "hash:ip,port", "bitmap:port", ... */
  readonly type: string;
  /** undefined for types without addresses, such as bitmap:port. */
  readonly family: IpFamily | undefined;
  /** Revision of the type; the kernel must support it (see `decodeTypeRevisions`). */
  readonly revision: number;
  /** Initial number of buckets; hash types only. Default 1024. */
  readonly hashSize?: number;
  /** hash types only. Default 65536. */
  readonly maxEntries?: number;
  /** bitmap:port only, which requires both. */
  readonly firstPort?: number;
  readonly lastPort?: number;
}

const TYPE = {
  type: required('IPSET_ATTR_TYPENAME', 3, text),
  revision: required('IPSET_ATTR_REVISION', 4, u8),
  family: required('IPSET_ATTR_FAMILY', 5, u8),
};

/** IPSET_ATTR_DATA of a set. ipset requires network order and NLA_F_NET_BYTEORDER for values wider than a byte. */
export const OPTIONS = {
  firstPort: optional('IPSET_ATTR_PORT', 4, marked(be16)),
  lastPort: optional('IPSET_ATTR_PORT_TO', 5, marked(be16)),
  hashSize: optional('IPSET_ATTR_HASHSIZE', 18, marked(be32)),
  maxEntries: optional('IPSET_ATTR_MAXELEM', 19, marked(be32)),
};

const CREATE = table({ ...TYPE, options: required('IPSET_ATTR_DATA', 7, nested(table(OPTIONS))) });

/** Creates an empty set; EEXIST if one of this name exists with other properties, or at all if `exclusive`. */
export function createSet(
  writer: MessageWriter,
  protocol: number,
  definition: IpsetDefinition,
  options: { readonly exclusive?: boolean } = {},
): number {
  const { name, type, family, revision, firstPort, lastPort, hashSize, maxEntries } = definition;
  const flags = options.exclusive === true ? NLM_F_CREATE | NLM_F_EXCL : NLM_F_CREATE;
  beginIpset(writer, IPSET_COMMAND.create, { protocol, name }, flags);
  encode(writer, CREATE, {
    type,
    revision,
    family: family === undefined ? AF_UNSPEC : addressFamily(family),
    options: { firstPort, lastPort, hashSize, maxEntries },
  });
  return writer.end();
}

const TYPE_QUERY = table({ type: TYPE.type, family: TYPE.family });

/** Writes a request for the supported revisions of a type, whose module the kernel loads. See `decodeTypeRevisions`. */
export function getType(writer: MessageWriter, protocol: number, type: string, family: IpFamily | undefined): number {
  beginIpset(writer, IPSET_COMMAND.type, { protocol });
  encode(writer, TYPE_QUERY, { type, family: family === undefined ? AF_UNSPEC : addressFamily(family) });
  return writer.end();
}

const REVISIONS = table({
  newest: required('IPSET_ATTR_REVISION', 4, u8),
  oldest: fallback('IPSET_ATTR_REVISION_MIN', 10, u8, 0),
});

export interface IpsetTypeRevisions {
  readonly newest: number;
  readonly oldest: number;
}

/** Throws DecodeError. */
export function decodeTypeRevisions(payload: Uint8Array): IpsetTypeRevisions {
  readNetfilterFamily(payload);
  return decode(REVISIONS, payload, NETFILTER_HEADER_SIZE);
}

const HEADER = table({ name: required('IPSET_ATTR_SETNAME', 2, text), ...TYPE });

/** Writes a request for type, family and revision of a set; ENOENT if it does not exist. See `decodeHeader`. */
export function getHeader(writer: MessageWriter, protocol: number, name: string): number {
  beginIpset(writer, IPSET_COMMAND.header, { protocol, name });
  return writer.end();
}

export interface IpsetHeader {
  readonly name: string;
  readonly type: string;
  readonly revision: number;
  readonly family: IpFamily | undefined;
}

/** Throws DecodeError. */
export function decodeHeader(payload: Uint8Array): IpsetHeader {
  readNetfilterFamily(payload);
  const { family, ...header } = decode(HEADER, payload, NETFILTER_HEADER_SIZE);
  return { ...header, family: ipFamily(family) };
}
