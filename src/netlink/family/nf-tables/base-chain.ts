import { decode } from '../../codec/attribute-table.ts';
import { NETFILTER, beginMessage, readHeader } from '../../codec/header.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { NFT_CHAIN } from './chain.ts';
import { NFT_MSG_GETCHAIN, nftType } from './message.ts';

/** A chain of any family that is attached to a hook. */
export interface NftBaseChain {
  readonly family: string;
  readonly table: string;
  readonly name: string;
  readonly hook: string;
  /** The chain with the lowest number is first. */
  readonly priority: number;
  /** Whether packets that no rule decides on are dropped. */
  readonly drops: boolean;
}

/** linux/netfilter.h: enum, NFPROTO_*. */
const FAMILY: ReadonlyMap<number, string> = new Map([
  [1, 'inet'],
  [2, 'ip'],
  [3, 'arp'],
  [5, 'netdev'],
  [7, 'bridge'],
  [10, 'ip6'],
]);

/** linux/netfilter.h: enum nf_inet_hooks, and for netdev enum nf_dev_hooks. */
const HOOKS = ['prerouting', 'input', 'forward', 'output', 'postrouting', 'ingress'];
const DEVICE_HOOKS = ['ingress', 'egress'];

/** linux/netfilter.h. */
const NF_DROP = 0;

/** Writes a request for the chains of all families. `decodeBaseChain` decodes each reply. */
export function dumpAllChains(writer: MessageWriter): number {
  beginMessage(writer, nftType(NFT_MSG_GETCHAIN), NETFILTER, { nfgen_family: 0 });
  return writer.endDump();
}

/** Returns undefined for a chain without a hook. Throws DecodeError. */
export function decodeBaseChain(payload: Uint8Array): NftBaseChain | undefined {
  const { nfgen_family: number } = readHeader(NETFILTER, payload);
  const { table, name, hook, policy } = decode(NFT_CHAIN, payload, NETFILTER.size);
  if (hook === undefined) return undefined;
  const family = FAMILY.get(number) ?? String(number);
  const hooks = family === 'netdev' ? DEVICE_HOOKS : HOOKS;
  return {
    family,
    table,
    name,
    hook: hooks[hook.hook] ?? String(hook.hook),
    priority: hook.priority | 0,
    drops: policy === NF_DROP,
  };
}
