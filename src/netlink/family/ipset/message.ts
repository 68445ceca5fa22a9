import { AF_INET } from '../../codec/address-family.ts';
import { encode, nested, type Encodable, optional, required, table, traced } from '../../codec/attribute-table.ts';
import { NETFILTER, beginMessage } from '../../codec/header.ts';
import { be16, be32, marked, text, u8 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { entryList } from './entry.ts';

/** linux/netfilter/nfnetlink.h. */
const NFNL_SUBSYS_IPSET = 6;

/** linux/netfilter/ipset/ip_set.h: enum ipset_cmd. */
export const IPSET_COMMAND = {
  protocol: 1,
  create: 2,
  destroy: 3,
  swap: 6,
  list: 7,
  add: 9,
  delete: 10,
  type: 13,
} as const;

export type IpsetCommand = (typeof IPSET_COMMAND)[keyof typeof IPSET_COMMAND];

/** The properties of a set. ipset requires network order and NLA_F_NET_BYTEORDER for values wider than a byte. */
const OPTIONS = table({
  firstPort: optional('IPSET_ATTR_PORT', 4, marked(be16)),
  lastPort: optional('IPSET_ATTR_PORT_TO', 5, marked(be16)),
  hashSize: optional('IPSET_ATTR_HASHSIZE', 18, marked(be32)),
  maxEntries: optional('IPSET_ATTR_MAXELEM', 19, marked(be32)),
  references: traced('IPSET_ATTR_REFERENCES', 25, marked(be32)),
  memory: traced('IPSET_ATTR_MEMSIZE', 26, marked(be32)),
});

const NAMES = {
  protocol: required('IPSET_ATTR_PROTOCOL', 1, u8),
  name: optional('IPSET_ATTR_SETNAME', 2, text),
};

/** All messages but IPSET_CMD_SWAP: attributes of linux/netfilter/ipset/ip_set.h, in the order that ipset uses. */
export const IPSET_MESSAGE = table({
  ...NAMES,
  type: optional('IPSET_ATTR_TYPENAME', 3, text),
  revision: optional('IPSET_ATTR_REVISION', 4, u8),
  /** AF_* number. */
  family: optional('IPSET_ATTR_FAMILY', 5, u8),
  flags: optional('IPSET_ATTR_FLAGS', 6, marked(be32)),
  options: optional('IPSET_ATTR_DATA', 7, nested(OPTIONS)),
  /** In an error reply, the line of the failed entry. */
  line: optional('IPSET_ATTR_LINENO', 9, marked(be32)),
  entries: optional('IPSET_ATTR_ADT', 8, entryList),
  oldest: optional('IPSET_ATTR_PROTOCOL_MIN', 10, u8),
});

export const IPSET_SWAP = table({ ...NAMES, otherName: required('IPSET_ATTR_SETNAME2', 3, text) });

/** Begins an ipset message and writes its attributes. `protocol` is the version that `chooseProtocol` returned. */
export function beginIpset(
  writer: MessageWriter,
  command: IpsetCommand,
  attributes: Encodable<typeof IPSET_MESSAGE.rows>,
  flags = 0,
): void {
  beginCommand(writer, command, flags);
  encode(writer, IPSET_MESSAGE, attributes);
}

/** Atomically swaps the contents of two sets of one type: a rule keeps its set name and matches the new entries. */
export function swapSets(writer: MessageWriter, protocol: number, name: string, otherName: string): number {
  beginCommand(writer, IPSET_COMMAND.swap, 0);
  encode(writer, IPSET_SWAP, { protocol, name, otherName });
  return writer.end();
}

function beginCommand(writer: MessageWriter, command: IpsetCommand, flags: number): void {
  beginMessage(writer, (NFNL_SUBSYS_IPSET << 8) | command, NETFILTER, { nfgen_family: AF_INET }, flags);
}
