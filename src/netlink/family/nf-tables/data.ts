import { be32, copied, text } from '../../codec/kind.ts';
import { nested, optional, required, table } from '../../codec/attribute-table.ts';

/** linux/netfilter/nf_tables.h: enum nft_verdicts, as unsigned numbers. */
export const NFT_VERDICT = { jump: -3 >>> 0, goto: -4 >>> 0, return: -5 >>> 0, drop: 0 } as const;

/** linux/netfilter/nf_tables.h: enum nft_verdict_attributes. */
const VERDICT = table({
  code: required('NFTA_VERDICT_CODE', 1, be32),
  chain: optional('NFTA_VERDICT_CHAIN', 2, text),
});

/** linux/netfilter/nf_tables.h: enum nft_data_attributes. */
const DATA = table({
  value: optional('NFTA_DATA_VALUE', 1, copied),
  verdict: optional('NFTA_DATA_VERDICT', 2, nested(VERDICT)),
});

/** What a register holds: a value of bytes, or what to do with the packet. */
export type NftData =
  { readonly value: Uint8Array } | { readonly verdict: { readonly code: number; readonly chain?: string | undefined } };

/** The value or verdict of an element or an expression. */
export const nftData = nested(DATA);
