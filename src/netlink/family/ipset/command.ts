import { AF_INET } from '../../codec/address-family.ts';
import { encode } from '../../codec/encode.ts';
import { text, u8 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { beginNetfilter } from '../../codec/netfilter-message.ts';
import { optional, required, table } from '../../codec/table.ts';

/** linux/netfilter/nfnetlink.h. */
const NFNL_SUBSYS_IPSET = 6;

/** linux/netfilter/ipset/ip_set.h: enum ipset_cmd. */
export const IPSET_COMMAND = {
  protocol: 1,
  create: 2,
  destroy: 3,
  flush: 4,
  rename: 5,
  swap: 6,
  list: 7,
  add: 9,
  delete: 10,
  header: 12,
  type: 13,
} as const;

export type IpsetCommand = (typeof IPSET_COMMAND)[keyof typeof IPSET_COMMAND];

/** linux/netfilter/ipset/ip_set.h: the attributes that every command starts with. */
const NAMES = table({
  protocol: required('IPSET_ATTR_PROTOCOL', 1, u8),
  name: optional('IPSET_ATTR_SETNAME', 2, text),
  otherName: optional('IPSET_ATTR_SETNAME2', 3, text),
});

export interface IpsetNames {
  /** The protocol version that `chooseProtocol` returned. */
  readonly protocol: number;
  readonly name?: string;
  readonly otherName?: string;
}

/** Begins an ipset message with the version and the names of its sets. */
export function beginIpset(writer: MessageWriter, command: IpsetCommand, names: IpsetNames, flags = 0): void {
  beginNetfilter(writer, NFNL_SUBSYS_IPSET, command, AF_INET, flags);
  encode(writer, NAMES, names);
}

/** Deletes a set; IPSET_ERR_BUSY if a rule refers to it, ENOENT if it does not exist. */
export function destroySet(writer: MessageWriter, protocol: number, name: string): number {
  beginIpset(writer, IPSET_COMMAND.destroy, { protocol, name });
  return writer.end();
}

/** Atomically swaps the contents of two sets of one type: a rule keeps its set name and matches the new entries. */
export function swapSets(writer: MessageWriter, protocol: number, name: string, otherName: string): number {
  beginIpset(writer, IPSET_COMMAND.swap, { protocol, name, otherName });
  return writer.end();
}
