import type { NftMessage, SetDefinition } from '../port/nft-message.ts';
import type { ChainPlan } from './base-chains.ts';
import type { ElementOf } from '../port/nft-port.ts';

/** A chain that several virtual servers use, and the sets and elements that exist as long as it does. */
export interface SharedChain {
  readonly chain: ChainPlan;
  readonly sets: readonly SetDefinition[];
  readonly elements: readonly ElementOf[];
}

/** Names of chains, and of the sets that exist as long as these. */
export interface ChainsAndSets {
  readonly chains: readonly string[];
  readonly sets: readonly string[];
}

/** Returns what deletes these. */
export function deletions({ chains, sets }: ChainsAndSets): readonly NftMessage[] {
  // A set can be deleted when no rule uses it, and a chain when no element of a map leads to it.
  return [
    ...chains.map((name): NftMessage => ({ kind: 'flush-chain', name })),
    ...sets.map((name): NftMessage => ({ kind: 'delete-set', name })),
    ...chains.map((name): NftMessage => ({ kind: 'delete-chain', name })),
  ];
}
