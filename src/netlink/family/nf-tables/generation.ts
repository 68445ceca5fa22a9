import { decode, required, table } from '../../codec/attribute-table.ts';
import { NETFILTER } from '../../codec/header.ts';
import { be32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { NFT_MSG_GETGEN, beginNft } from './message.ts';

export const GENERATION = table({ id: required('NFTA_GEN_ID', 1, be32) });

/** Writes a request for the generation of the ruleset: a number that every transaction of any program changes. */
export function getGeneration(writer: MessageWriter): number {
  beginNft(writer, NFT_MSG_GETGEN, 4);
  return writer.end();
}

/** Throws DecodeError. */
export function decodeGeneration(payload: Uint8Array): number {
  return decode(GENERATION, payload, NETFILTER.size).id;
}
