import type { IpFamily } from '../../../base/ip.ts';
import { addressFamily } from '../../codec/address-family.ts';
import { type Encodable, type Rows, type Table, encode } from '../../codec/attribute-table.ts';
import { NETFILTER, beginMessage } from '../../codec/header.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';

/** linux/netfilter/nfnetlink.h. */
const NFNL_SUBSYS_NFTABLES = 10;

/** linux/netfilter/nf_tables.h: enum nf_tables_msg_types. */
export const NFT_MSG_NEWTABLE = 0;
export const NFT_MSG_GETTABLE = 1;
export const NFT_MSG_DELTABLE = 2;
export const NFT_MSG_NEWCHAIN = 3;
export const NFT_MSG_GETCHAIN = 4;
export const NFT_MSG_DELCHAIN = 5;
export const NFT_MSG_NEWRULE = 6;
export const NFT_MSG_GETRULE = 7;
export const NFT_MSG_DELRULE = 8;
export const NFT_MSG_NEWSET = 9;
export const NFT_MSG_GETSET = 10;
export const NFT_MSG_DELSET = 11;
export const NFT_MSG_NEWSETELEM = 12;
export const NFT_MSG_GETSETELEM = 13;
export const NFT_MSG_DELSETELEM = 14;
export const NFT_MSG_GETGEN = 16;

export function nftType(message: number): number {
  return (NFNL_SUBSYS_NFTABLES << 8) | message;
}

/** Begins a message. NFPROTO_IPV4 and NFPROTO_IPV6 equal AF_INET and AF_INET6. */
export function beginNft(writer: MessageWriter, message: number, family: IpFamily, flags = 0): void {
  beginMessage(writer, nftType(message), NETFILTER, { nfgen_family: addressFamily(family) }, flags);
}

export function writeNft<R extends Rows>(
  writer: MessageWriter,
  message: number,
  family: IpFamily,
  table: Table<R>,
  value: Encodable<R>,
  flags = 0,
): number {
  beginNft(writer, message, family, flags);
  encode(writer, table, value);
  return writer.end();
}
