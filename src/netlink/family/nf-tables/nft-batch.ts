import { encode, optional, table, decode, required } from '../../codec/attribute-table.ts';
import { beginMessage, header, NETFILTER } from '../../codec/header.ts';
import { be32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { NFT_MSG_GETGEN, beginNft } from './message.ts';

/** linux/netfilter/nfnetlink.h. */
const NFNL_MSG_BATCH_BEGIN = 16;
const NFNL_MSG_BATCH_END = 17;

/** struct nfgenmsg (linux/netfilter/nfnetlink.h). Here the resource id is the subsystem, in network byte order. */
const BATCH_HEADER = header('struct nfgenmsg', [
  ['nfgen_family', 1],
  ['version', 1],
  ['res_id', 2],
]);
const NFTABLES_BIG_ENDIAN = 0x0a00;

export const BATCH = table({ generation: optional('NFNL_BATCH_GENID', 1, be32) });

/**
 * Begins a transaction: the kernel executes all messages up to `endBatch`, or none. It fails with ERESTART if the
 * ruleset has another generation than this one, which `decodeGeneration` returned.
 */
export function beginBatch(writer: MessageWriter, generation: number | undefined): void {
  beginMessage(writer, NFNL_MSG_BATCH_BEGIN, BATCH_HEADER, { res_id: NFTABLES_BIG_ENDIAN });
  encode(writer, BATCH, { generation });
  writer.end();
}

/** The batch must contain another message, because only that is acknowledged. */
export function endBatch(writer: MessageWriter): void {
  beginMessage(writer, NFNL_MSG_BATCH_END, BATCH_HEADER, { res_id: NFTABLES_BIG_ENDIAN });
  writer.endBatch();
}

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
