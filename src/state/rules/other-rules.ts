/** Rules and chains of other programs that packets of one IP family may pass. */
export interface OtherRules {
  /** The variant of iptables whose rules these are, such as "nft"; "" if they could not be read. */
  readonly variant: string;
  /** By table and chain, ours too: the words of each rule without "-A CHAIN". A policy DROP is a last rule "-P DROP". */
  readonly tables: ReadonlyMap<string, ReadonlyMap<string, readonly (readonly string[])[]>>;
  /** The base chains of nf_tables that are not of iptables, as "table ip NAME, chain NAME (hook input, priority 0)". */
  readonly baseChains: readonly string[];
  /** The marks for which IPVS has a virtual server. It takes packets with this mark before those by address. Absent without IPVS. */
  readonly marks?: readonly number[];
}

export const NO_OTHER_RULES: OtherRules = { variant: '', tables: new Map(), baseChains: [] };
