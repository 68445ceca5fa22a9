import { type IpAddress, formatIp, isIp4 } from '../../../base/ip.ts';
import {
  decode,
  forEachAttribute,
  encode,
  encodeNest,
  nested,
  type Kind,
  type Decoded,
  optional,
  table,
  traced,
} from '../../codec/attribute-table.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { NLA_F_NESTED } from '../../codec/flags.ts';
import { address, be16, be32, marked, raw, u8 } from '../../codec/kind.ts';

/** linux/netfilter/ipset/ip_set.h. */
const EITHER_ADDRESS = table({
  v4: optional('IPSET_ATTR_IPADDR_IPV4', 1, marked(address)),
  v6: optional('IPSET_ATTR_IPADDR_IPV6', 2, marked(address)),
});

const nestedAddress: Kind<IpAddress> = {
  size: undefined,
  flags: NLA_F_NESTED,
  write: (writer, value) => encode(writer, EITHER_ADDRESS, isIp4(value) ? { v4: value } : { v6: value }),
  read: (bytes, start, end) => {
    const { v4, v6 } = decode(EITHER_ADDRESS, bytes, start, end);
    const value = v4 ?? v6;
    if (value === undefined) throw new DecodeError('IPSET_ATTR_IP', start, 'neither an IPv4 nor an IPv6 address');
    return value;
  },
  show: formatIp,
};

const ENTRY = table({
  address: optional('IPSET_ATTR_IP', 1, nestedAddress),
  port: optional('IPSET_ATTR_PORT', 4, marked(be16)),
  /** IPPROTO_* number. */
  protocol: optional('IPSET_ATTR_PROTO', 7, u8),
  /** The second address, or the network, of hash:ip,port,ip and hash:ip,port,net. */
  address2: optional('IPSET_ATTR_IP2', 20, nestedAddress),
  /** Prefix length of the network. Default: a single address. */
  prefix2: optional('IPSET_ATTR_CIDR2', 21, u8),
  line: optional('IPSET_ATTR_LINENO', 9, marked(be32)),
});

/** An ipset entry. The type of its set determines which fields it has. */
export type IpsetEntry = Readonly<Partial<Omit<Decoded<typeof ENTRY.rows>, 'line'>>>;

/** linux/netfilter/ipset/ip_set.h. */
const IPSET_ATTR_DATA = 7;
const LIST = table({ entry: traced('IPSET_ATTR_DATA', IPSET_ATTR_DATA, nested(ENTRY)) });

/**
 * A list of entries. Writing numbers them from 1. Reading returns undecoded bytes, because the set may have a type whose
 * entries this program does not know; `decodeEntries` decodes them.
 */
export const entryList: Kind<Uint8Array, readonly IpsetEntry[]> = {
  ...raw,
  flags: NLA_F_NESTED,
  write: (writer, entries) => {
    for (const [index, entry] of entries.entries()) {
      encodeNest(writer, IPSET_ATTR_DATA, ENTRY, { ...entry, line: index + 1 });
    }
  },
  inner: () => LIST,
};

/** Throws DecodeError. */
export function decodeEntries(bytes: Uint8Array): IpsetEntry[] {
  const entries: IpsetEntry[] = [];
  forEachAttribute(bytes, 0, bytes.length, (_id, start, end) => entries.push(decode(ENTRY, bytes, start, end)));
  return entries;
}
