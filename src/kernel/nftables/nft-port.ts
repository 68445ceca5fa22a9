import type { IpFamily } from '../../base/ip.ts';
import type { NftElement } from '../../netlink/family/nf-tables/element.ts';
import type { ObservedRule } from '../../netlink/family/nf-tables/rule.ts';
import type { ChainDefinition, NftMessage, SetDefinition } from './nft-message.ts';

/** Why the kernel refused a transaction. Nothing of it is in force. */
export interface NftRefusal {
  /** Positive; 0 if there is none (timeout, closed socket). */
  readonly errno: number;
  readonly code: string;
  readonly text: string;
}

export interface ObservedChain extends ChainDefinition {
  readonly policy: number | undefined;
}

/** Reads and writes the table `kube-proxy` of each family: the kernel's one, or one in memory for tests. */
export interface NftPort {
  hasTable(family: IpFamily): Promise<boolean>;
  /** Returns the sets without elements; none if the table does not exist. */
  sets(family: IpFamily): Promise<readonly SetDefinition[]>;
  chains(family: IpFamily): Promise<readonly ObservedChain[]>;
  /** Returns which of these chains exist. */
  findChains(family: IpFamily, names: readonly string[]): Promise<ReadonlySet<string>>;
  /** Returns all rules in the order of their chains; none if the table does not exist. */
  rules(family: IpFamily): Promise<readonly ObservedRule[]>;
  /** Returns all elements of a set; none if the set does not exist. */
  elements(family: IpFamily, set: string): Promise<readonly NftElement[]>;
  /** Returns the elements with these keys; missing ones are absent. */
  findElements(family: IpFamily, set: string, keys: readonly Uint8Array[]): Promise<readonly NftElement[]>;
  /** Returns a number that every transaction of any program changes. */
  generation(): Promise<number>;
  /**
   * Executes all messages or none. With `generation`, fails with ERESTART if any program has changed the ruleset since
   * generation() returned it.
   */
  commit(family: IpFamily, messages: readonly NftMessage[], generation?: number): Promise<NftRefusal | undefined>;
}
