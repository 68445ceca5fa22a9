import type { IpFamily } from '../../../base/ip.ts';
import { decode, fallback, optional, required, table } from '../../codec/attribute-table.ts';
import { NLM_F_CREATE } from '../../codec/flags.ts';
import { NETFILTER } from '../../codec/header.ts';
import { be32, copied, text } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { NFT_MSG_DELTABLE, NFT_MSG_GETTABLE, NFT_MSG_NEWTABLE, beginNft, writeNft } from './message.ts';

/** linux/netfilter/nf_tables.h: enum nft_table_attributes. */
export const NFT_TABLE = table({
  name: required('NFTA_TABLE_NAME', 1, text),
  flags: fallback('NFTA_TABLE_FLAGS', 2, be32, 0),
  userData: optional('NFTA_TABLE_USERDATA', 6, copied),
  owner: optional('NFTA_TABLE_OWNER', 7, be32),
});

/** linux/netfilter/nf_tables.h: enum nft_table_flags. No hook leads to the chains of such a table. */
export const NFT_TABLE_F_DORMANT = 0x1;
/** Only the socket that created the table may change it. */
export const NFT_TABLE_F_OWNER = 0x2;

export interface NftTable {
  readonly name: string;
  /** NFT_TABLE_F_* bits. */
  readonly flags?: number | undefined;
  /** Data that only nft uses, such as the comment. */
  readonly userData?: Uint8Array | undefined;
  /** The netlink port of the socket that owns the table, usually the ID of its process. */
  readonly owner?: number | undefined;
}

/** Adds a table. One that exists gets these flags: without any, it is not dormant any more. The rest stays as it is. */
export function newTable(writer: MessageWriter, family: IpFamily, value: NftTable): number {
  return writeNft(writer, NFT_MSG_NEWTABLE, family, NFT_TABLE, value, NLM_F_CREATE);
}

/** Deletes a table with everything in it; ENOENT if it does not exist. */
export function deleteTable(writer: MessageWriter, family: IpFamily, name: string): number {
  return writeNft(writer, NFT_MSG_DELTABLE, family, NFT_NAME, { name });
}

const NFT_NAME = table({ name: NFT_TABLE.rows.name });

export function dumpTables(writer: MessageWriter, family: IpFamily): number {
  beginNft(writer, NFT_MSG_GETTABLE, family);
  return writer.endDump();
}

/** Throws DecodeError. */
export function decodeTable(payload: Uint8Array): NftTable {
  return decode(NFT_TABLE, payload, NETFILTER.size);
}
