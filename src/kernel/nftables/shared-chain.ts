import type { SetDefinition } from './nft-message.ts';
import type { ChainPlan } from './base-chains.ts';
import type { ElementOf } from './nft-port.ts';

/** A chain that several virtual servers use, and the sets and elements that exist as long as it does. */
export interface SharedChain {
  readonly chain: ChainPlan;
  readonly sets: readonly SetDefinition[];
  readonly elements: readonly ElementOf[];
}
