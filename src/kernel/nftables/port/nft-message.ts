import type { NftChain } from '../../../netlink/family/nf-tables/chain.ts';
import type { ElementList } from '../../../netlink/family/nf-tables/element-list.ts';
import type { NftExpression } from '../../../netlink/family/nf-tables/expression.ts';
import type { NftSet } from '../../../netlink/family/nf-tables/set.ts';

/**
 * How many elements a transaction may have. The kernel keeps a notification of 4 to 8 KiB for each until the transaction ends, if
 * any program listens, and other programs' transactions wait for it.
 */
export const MOST_ELEMENTS = 8_192;

/** The definition of a chain of our table. */
export type ChainDefinition = Omit<NftChain, 'table'>;

/** The definition of a set or map of our table. */
export type SetDefinition = Omit<NftSet, 'table'>;

/** A rule, or a part of one: its expressions, and the same as nft writes it. */
export interface RulePart {
  readonly expressions: readonly NftExpression[];
  readonly text: string;
}

/** One change of our table of one family. A transaction is a list of them, which the kernel executes as a whole. */
export type NftMessage =
  /** A table that exists is not dormant any more. */
  | { readonly kind: 'new-table' }
  | { readonly kind: 'delete-table' }
  | { readonly kind: 'new-set'; readonly set: SetDefinition }
  | { readonly kind: 'delete-set'; readonly name: string }
  | { readonly kind: 'new-chain'; readonly chain: ChainDefinition }
  | { readonly kind: 'delete-chain' | 'flush-chain'; readonly name: string }
  | ({ readonly kind: 'new-rule'; readonly chain: string } & RulePart)
  | {
      readonly kind: 'new-elements' | 'delete-elements';
      readonly set: string;
      /** Any number: they are sent in as many messages as needed. */
      readonly elements: ElementList;
    };
