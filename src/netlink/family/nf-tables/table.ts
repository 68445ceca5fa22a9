import type { IpFamily } from '../../../base/ip.ts';
import { addressFamily } from '../../codec/address-family.ts';
import { NETFILTER, beginMessage } from '../../codec/header.ts';
import { text } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { table, traced } from '../../codec/table.ts';

/** linux/netfilter/nfnetlink.h. */
const NFNL_SUBSYS_NFTABLES = 10;
/** linux/netfilter/nf_tables.h: enum nf_tables_msg_types. */
const NFT_MSG_GETTABLE = 1;

export const NFT_TABLE = table({ name: traced('NFTA_TABLE_NAME', 1, text) });

/** Writes a request for the tables of one family. NFPROTO_IPV4 and NFPROTO_IPV6 equal AF_INET and AF_INET6. */
export function dumpTables(writer: MessageWriter, family: IpFamily): number {
  const type = (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETTABLE;
  beginMessage(writer, type, NETFILTER, { nfgen_family: addressFamily(family) });
  return writer.endDump();
}
