import type { IpFamily } from '../../../base/ip.ts';
import { decode, encode, nested, fallback, optional, required, table } from '../../codec/attribute-table.ts';
import { NLM_F_CREATE } from '../../codec/flags.ts';
import { NETFILTER } from '../../codec/header.ts';
import { be32, be64, copied, text } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { NFT_MSG_DELSET, NFT_MSG_GETSET, NFT_MSG_NEWSET, beginNft, writeNft } from './message.ts';

/** linux/netfilter/nf_tables.h: enum nft_set_flags. */
export const NFT_SET_INTERVAL = 0x4;
export const NFT_SET_MAP = 0x8;
export const NFT_SET_TIMEOUT = 0x10;
export const NFT_SET_EVAL = 0x20;
/** linux/netfilter/nf_tables.h: the data type of verdicts. */
export const NFT_DATA_VERDICT = 0xffffff00;

/** linux/netfilter/nf_tables.h: enum nft_set_desc_attributes. */
const DESCRIPTION = table({ size: optional('NFTA_SET_DESC_SIZE', 1, be32) });

/** linux/netfilter/nf_tables.h: enum nft_set_attributes. */
export const NFT_SET = table({
  table: required('NFTA_SET_TABLE', 1, text),
  name: required('NFTA_SET_NAME', 2, text),
  flags: fallback('NFTA_SET_FLAGS', 3, be32, 0),
  keyType: required('NFTA_SET_KEY_TYPE', 4, be32),
  keyLength: required('NFTA_SET_KEY_LEN', 5, be32),
  dataType: optional('NFTA_SET_DATA_TYPE', 6, be32),
  dataLength: optional('NFTA_SET_DATA_LEN', 7, be32),
  description: optional('NFTA_SET_DESC', 9, nested(DESCRIPTION)),
  /** Identifies a new set within its batch. */
  id: optional('NFTA_SET_ID', 10, be32),
  timeout: optional('NFTA_SET_TIMEOUT', 11, be64),
  userData: optional('NFTA_SET_USERDATA', 13, copied),
});

export interface NftSet {
  readonly table: string;
  readonly name: string;
  /** NFT_SET_* bits. */
  readonly flags: number;
  /** nft's number for the type of the key; the kernel only stores it. */
  readonly keyType: number;
  /** Bytes of the key, each of whose fields fills whole registers of 4 bytes. */
  readonly keyLength: number;
  /** Of a map: nft's number for the type of its data, or NFT_DATA_VERDICT. */
  readonly dataType?: number | undefined;
  readonly dataLength?: number | undefined;
  /** The largest number of elements; absent: no limit. */
  readonly size?: number | undefined;
  /** How long an element stays that a rule adds, in ms. */
  readonly timeout?: number | undefined;
  /** Data that only nft uses: how it shows keys and data. */
  readonly userData?: Uint8Array | undefined;
}

/** Adds a set; an existing one keeps its elements. `id` must differ from those of other new sets of the batch. */
export function newSet(writer: MessageWriter, family: IpFamily, { size, ...set }: NftSet, id: number): number {
  return writeNft(
    writer,
    NFT_MSG_NEWSET,
    family,
    NFT_SET,
    { ...set, id, ...(size === undefined ? {} : { description: { size } }) },
    NLM_F_CREATE,
  );
}

/** Deletes a set with its elements; EBUSY if a rule refers to it. */
export function deleteSet(writer: MessageWriter, family: IpFamily, names: Pick<NftSet, 'table' | 'name'>): number {
  return writeNft(writer, NFT_MSG_DELSET, family, SET_NAMES, names);
}

const SET_NAMES = table({ table: NFT_SET.rows.table, name: NFT_SET.rows.name });
const SETS_OF = table({ table: NFT_SET.rows.table });

/** Writes a request for the sets of a table, without elements. */
export function dumpSetHeaders(writer: MessageWriter, family: IpFamily, of: string): number {
  beginNft(writer, NFT_MSG_GETSET, family);
  encode(writer, SETS_OF, { table: of });
  return writer.endDump();
}

/** Throws DecodeError. */
export function decodeSet(payload: Uint8Array): NftSet {
  const { description, id: _id, ...set } = decode(NFT_SET, payload, NETFILTER.size);
  return { ...set, size: description?.size };
}
