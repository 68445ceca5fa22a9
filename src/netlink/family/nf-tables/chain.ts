import type { IpFamily } from '../../../base/ip.ts';
import { decode, encode, nested, optional, required, table } from '../../codec/attribute-table.ts';
import { NLM_F_CREATE } from '../../codec/flags.ts';
import { NETFILTER } from '../../codec/header.ts';
import { be32, text } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { NFT_MSG_DELCHAIN, NFT_MSG_GETCHAIN, NFT_MSG_NEWCHAIN, beginNft, writeNft } from './message.ts';

/** linux/netfilter/nf_tables.h: enum nft_hook_attributes. */
const HOOK = table({
  hook: required('NFTA_HOOK_HOOKNUM', 1, be32),
  priority: required('NFTA_HOOK_PRIORITY', 2, be32),
});

/** linux/netfilter/nf_tables.h: enum nft_chain_attributes. */
export const NFT_CHAIN = table({
  table: required('NFTA_CHAIN_TABLE', 1, text),
  name: required('NFTA_CHAIN_NAME', 3, text),
  hook: optional('NFTA_CHAIN_HOOK', 4, nested(HOOK)),
  policy: optional('NFTA_CHAIN_POLICY', 5, be32),
  use: optional('NFTA_CHAIN_USE', 6, be32),
  type: optional('NFTA_CHAIN_TYPE', 7, text),
  flags: optional('NFTA_CHAIN_FLAGS', 10, be32),
});

/** linux/netfilter.h: enum nf_inet_hooks. */
export const NFT_HOOK = { prerouting: 0, input: 1, forward: 2, output: 3, postrouting: 4 } as const;

/** Attaches a chain to a hook, which makes it a base chain. Its policy is to accept. */
export interface NftHook {
  readonly type: 'filter' | 'nat';
  readonly hook: keyof typeof NFT_HOOK;
  /** The chain with the lowest number is first. */
  readonly priority: number;
}

export interface NftChain {
  readonly table: string;
  readonly name: string;
  readonly base?: NftHook | undefined;
}

/** linux/netfilter/nf_tables.h: enum nft_chain_flags. */
const NFT_CHAIN_BINDING = 0x4;

/** linux/netfilter.h. */
const NF_ACCEPT = 1;

/** Adds a chain; an existing one keeps its rules. */
export function newChain(writer: MessageWriter, family: IpFamily, { base, ...names }: NftChain): number {
  beginNft(writer, NFT_MSG_NEWCHAIN, family, NLM_F_CREATE);
  encode(
    writer,
    NFT_CHAIN,
    base === undefined
      ? names
      : {
          ...names,
          hook: { hook: NFT_HOOK[base.hook], priority: base.priority >>> 0 },
          policy: NF_ACCEPT,
          type: base.type,
        },
  );
  return writer.end();
}

/** Deletes a chain with its rules; EBUSY if a rule or an element refers to it. */
export function deleteChain(writer: MessageWriter, family: IpFamily, names: NftChain): number {
  return writeNft(writer, NFT_MSG_DELCHAIN, family, CHAIN_NAMES, names);
}

const CHAIN_NAMES = table({ table: NFT_CHAIN.rows.table, name: NFT_CHAIN.rows.name });

/** Writes a request for one chain; ENOENT if it does not exist. */
export function getChain(writer: MessageWriter, family: IpFamily, names: NftChain): number {
  return writeNft(writer, NFT_MSG_GETCHAIN, family, CHAIN_NAMES, names);
}

/** Writes a request for the chains of all tables of one family. */
export function dumpChains(writer: MessageWriter, family: IpFamily): number {
  beginNft(writer, NFT_MSG_GETCHAIN, family);
  return writer.endDump();
}

export interface DecodedChain extends NftChain {
  readonly policy: number | undefined;
  /** Whether it is a part of a rule, which the kernel deletes with it. */
  readonly bound: boolean;
}

/** Returns how many rules a chain has and how many rules and elements lead to it, in one number. */
export function decodeChainUse(payload: Uint8Array): number {
  return decode(NFT_CHAIN, payload, NETFILTER.size).use ?? 0;
}

/** Returns a chain; for a base chain of another type or with another policy, `base` is what makes it differ. */
export function decodeChain(payload: Uint8Array): DecodedChain {
  const { table: of, name, hook, policy, type, flags = 0 } = decode(NFT_CHAIN, payload, NETFILTER.size);
  const bound = (flags & NFT_CHAIN_BINDING) !== 0;
  if (hook === undefined) return { table: of, name, policy, bound };
  const names = Object.entries(NFT_HOOK).find(([, value]) => value === hook.hook);
  const base = {
    type: type as NftHook['type'],
    hook: (names?.[0] ?? String(hook.hook)) as NftHook['hook'],
    priority: hook.priority | 0,
  };
  return { table: of, name, base, policy, bound };
}
