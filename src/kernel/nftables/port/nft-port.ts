import type { IpFamily } from '../../../base/ip.ts';
import type { NftElement } from '../../../netlink/family/nf-tables/element.ts';
import type { ObservedRule } from '../../../netlink/family/nf-tables/rule.ts';
import { type Refusal, reasonOf } from '../../../state/outcome.ts';
import type { ChainDefinition, NftMessage, SetDefinition } from './nft-message.ts';
import { nftTable } from '../../../state/nft-table.ts';
import { KernelError } from '../../kernel-error.ts';

/** Why the kernel refused a transaction. Nothing of it is in force. */
export type NftRefusal = Refusal;

export interface ObservedChain extends ChainDefinition {
  readonly policy: number | undefined;
}

/** An element of one of several sets. */
export type ElementOf = NftElement & { readonly set: string };

/** What to look up in one exchange. */
export interface NftLookup {
  readonly elements?: readonly Pick<ElementOf, 'set' | 'key'>[];
  readonly chains?: readonly string[];
}

/** What exists of it. As long as the ruleset has this generation, all of it is still true. */
export interface NftFindings {
  readonly generation: number;
  readonly elements: readonly ElementOf[];
  /** For each chain, the sum of the rules in it and of the rules and elements that jump to it. */
  readonly chains: ReadonlyMap<string, number>;
}

/** Reads and writes the table `kube-proxy` of each family: the kernel's one, or one in memory for tests. */
export interface NftPort {
  hasTable(family: IpFamily): Promise<boolean>;
  /** Whether no hook leads to the chains of the table, as if there were none. */
  isDormant(family: IpFamily): Promise<boolean>;
  /** Returns the sets without elements; none if the table does not exist. */
  sets(family: IpFamily): Promise<readonly SetDefinition[]>;
  /** Returns the chains, without those that are a part of a rule. */
  chains(family: IpFamily): Promise<readonly ObservedChain[]>;
  /** Returns all rules in the order of their chains; none if the table does not exist. */
  rules(family: IpFamily): Promise<readonly ObservedRule[]>;
  /** Visits all elements of a set; none if the set does not exist. A visited element is not kept. */
  eachElement(family: IpFamily, set: string, visit: (element: NftElement) => void): Promise<void>;
  /** Reads the generation of the ruleset, a number that every transaction of any program changes, and then the rest. */
  lookUp(family: IpFamily, lookup: NftLookup): Promise<NftFindings>;
  /**
   * Executes all messages or none. With `generation`, fails with ERESTART if any program has changed the ruleset since
   * it had that generation.
   */
  commit(family: IpFamily, messages: readonly NftMessage[], generation?: number): Promise<NftRefusal | undefined>;
  /**
   * Tells whether the kernel would execute these messages in a new table. They are executed in one of another name, which
   * the same transaction deletes, so nothing of it is ever in force.
   */
  tryOut(family: IpFamily, messages: readonly NftMessage[]): Promise<NftRefusal | undefined>;
}

/** Throws a KernelError if the kernel has refused a transaction. @param verb what it was to do to the table */
export function requireCommitted(verb: string, family: IpFamily, refusal: NftRefusal | undefined): void {
  if (refusal === undefined) return;
  const { code } = refusal;
  const hint =
    code === 'EOPNOTSUPP'
      ? ': this kernel has no nf_tables, or is older than 5.13; ipvs and iptables mode would work'
      : '';
  throw new KernelError('nf_tables', code, `cannot ${verb} table ${nftTable(family)}: ${reasonOf(refusal)}${hint}`);
}
