import type { IpFamily } from '../../../base/ip.ts';
import {
  decode,
  forEachAttribute,
  encode,
  encodeNest,
  type Kind,
  optional,
  required,
  table,
  traced,
  nested,
} from '../../codec/attribute-table.ts';
import { NLA_F_NESTED, NLM_F_CREATE } from '../../codec/flags.ts';
import { NETFILTER } from '../../codec/header.ts';
import { be32, text } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { type NftData, nftData } from './data.ts';
import { NFT_MSG_DELSETELEM, NFT_MSG_GETSETELEM, NFT_MSG_NEWSETELEM, beginNft, writeNft } from './message.ts';

/** linux/netfilter/nf_tables.h: enum nft_set_elem_attributes. */
const ELEMENT = table({
  /** All but the catch-all element have one. */
  key: optional('NFTA_SET_ELEM_KEY', 1, nftData),
  flags: optional('NFTA_SET_ELEM_FLAGS', 3, be32),
  data: optional('NFTA_SET_ELEM_DATA', 2, nftData),
});

/** linux/netfilter/nf_tables.h: enum nft_set_elem_flags. */
const NFT_SET_ELEM_INTERVAL_END = 0x1;
const NFT_SET_ELEM_CATCHALL = 0x2;

/** linux/netfilter/nf_tables.h: enum nft_list_attributes. */
const NFTA_LIST_ELEM = 1;
const LIST = table({ element: traced('NFTA_LIST_ELEM', NFTA_LIST_ELEM, nested(ELEMENT)) });

/** An element of a set (a key) or of a map (a key and its data). */
export interface NftElement {
  /** Empty: the catch-all element, which the kernel finds for each key without an element. */
  readonly key: Uint8Array;
  readonly data?: NftData | undefined;
  /** In a set of intervals: the first key after one. Otherwise the key begins one. */
  readonly isEnd?: boolean | undefined;
}

/** The elements of a message. They are written from objects, or as they were encoded before (see ElementList). */
export const elementList: Kind<readonly NftElement[], readonly NftElement[] | Uint8Array> = {
  size: undefined,
  flags: NLA_F_NESTED,
  write: (writer, elements) => {
    if (elements instanceof Uint8Array) {
      writer.raw(elements);
      return;
    }
    for (const { key, data, isEnd } of elements) {
      const named = key.length === 0 ? { flags: NFT_SET_ELEM_CATCHALL } : { key: { value: key } };
      const fields = isEnd === true ? { ...named, flags: NFT_SET_ELEM_INTERVAL_END } : named;
      encodeNest(writer, NFTA_LIST_ELEM, ELEMENT, data === undefined ? fields : { ...fields, data });
    }
  },
  read: (bytes, start, end) => {
    const elements: NftElement[] = [];
    forEachAttribute(bytes, start, end, (_id, from, to) => {
      const { key, data, flags = 0 } = decode(ELEMENT, bytes, from, to);
      const element = { key: key?.value ?? NO_BYTES, data: data === undefined ? undefined : dataOf(data) };
      elements.push((flags & NFT_SET_ELEM_INTERVAL_END) === 0 ? element : { ...element, isEnd: true });
    });
    return elements;
  },
  inner: () => LIST,
};

const NO_BYTES = new Uint8Array();

function dataOf({
  value = NO_BYTES,
  verdict,
}: {
  value: Uint8Array | undefined;
  verdict: VerdictOf | undefined;
}): NftData {
  return verdict === undefined ? { value } : { verdict };
}

type VerdictOf = Extract<NftData, { verdict: unknown }>['verdict'];

/** linux/netfilter/nf_tables.h: enum nft_set_elem_list_attributes. */
export const NFT_ELEMENTS = table({
  table: required('NFTA_SET_ELEM_LIST_TABLE', 1, text),
  set: required('NFTA_SET_ELEM_LIST_SET', 2, text),
  elements: optional('NFTA_SET_ELEM_LIST_ELEMENTS', 3, elementList),
});

export interface NftElements {
  readonly table: string;
  readonly set: string;
  /** Their attribute may have 64 KiB. */
  readonly elements?: readonly NftElement[] | Uint8Array | undefined;
}

/** Adds elements. An existing key is left alone if it has the same data; otherwise EEXIST. */
export function newElements(writer: MessageWriter, family: IpFamily, elements: NftElements): number {
  return writeNft(writer, NFT_MSG_NEWSETELEM, family, NFT_ELEMENTS, elements, NLM_F_CREATE);
}

/** Deletes elements; ENOENT if one does not exist. */
export function deleteElements(writer: MessageWriter, family: IpFamily, elements: NftElements): number {
  return writeNft(writer, NFT_MSG_DELSETELEM, family, NFT_ELEMENTS, elements);
}

/** Writes a request for one element; ENOENT if it does not exist. */
export function getElement(writer: MessageWriter, family: IpFamily, element: NftElements): number {
  return writeNft(writer, NFT_MSG_GETSETELEM, family, NFT_ELEMENTS, element);
}

export function dumpElements(writer: MessageWriter, family: IpFamily, { table: of, set }: NftElements): number {
  beginNft(writer, NFT_MSG_GETSETELEM, family);
  encode(writer, NFT_ELEMENTS, { table: of, set });
  return writer.endDump();
}

/** Throws DecodeError. */
export function decodeElements(payload: Uint8Array): readonly NftElement[] {
  return decode(NFT_ELEMENTS, payload, NETFILTER.size).elements ?? [];
}
