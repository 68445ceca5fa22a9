import type { NftMessage, SetDefinition } from '../port/nft-message.ts';
import type { ChainPlan } from './base-chains.ts';
import type { ElementOf } from '../port/nft-port.ts';

/** A chain that several virtual servers use, and the sets and elements that exist as long as it does. */
export interface SharedChain {
  readonly chain: ChainPlan;
  readonly sets: readonly SetDefinition[];
  readonly elements: readonly ElementOf[];
}

/** The deletion of a chain or set. */
export interface Deletion {
  readonly kind: 'delete-chain' | 'delete-set';
  readonly name: string;
}

export function deleteChain(name: string): Deletion {
  return { kind: 'delete-chain', name };
}

export function deleteSet(name: string): Deletion {
  return { kind: 'delete-set', name };
}

/** Returns what makes these deletions together. */
export function deletionsOf(some: readonly Deletion[]): readonly NftMessage[] {
  // A set can be deleted when no rule uses it, and a chain when no element of a map leads to it.
  const { 'delete-chain': chains = [], 'delete-set': sets = [] } = Object.groupBy(some, ({ kind }) => kind);
  return [...chains.map(({ name }): NftMessage => ({ kind: 'flush-chain', name })), ...sets, ...chains];
}
