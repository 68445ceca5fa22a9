import type { IpFamily } from '../../../base/ip.ts';
import { addressFamily } from '../../codec/address-family.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { beginNetfilter } from '../../codec/netfilter-message.ts';

/** linux/netfilter/nfnetlink.h. */
const NFNL_SUBSYS_NFTABLES = 10;
/** linux/netfilter/nf_tables.h: enum nf_tables_msg_types. */
const NFT_MSG_GETTABLE = 1;

/** Writes a request for the tables of one family. NFPROTO_IPV4 and NFPROTO_IPV6 equal AF_INET and AF_INET6. */
export function dumpTables(writer: MessageWriter, family: IpFamily): number {
  beginNetfilter(writer, NFNL_SUBSYS_NFTABLES, NFT_MSG_GETTABLE, addressFamily(family));
  return writer.endDump();
}
