import type { IpAddress } from '../../src/base/ip.ts';
import type { Protocol } from '../../src/base/protocol.ts';
import type { NftHook } from '../../src/netlink/family/nf-tables/chain.ts';

/** The first packet of a connection. */
export interface Packet {
  readonly source: IpAddress;
  readonly destination: IpAddress;
  readonly protocol: Protocol;
  readonly port: number;
  /** The interface through which it arrives; undefined: a program of the node sends it. */
  readonly through?: string | undefined;
}

/** The node that a packet arrives at. */
export interface TracedNode {
  /** Whether an address is local to the node, as the kernel's routing table says. */
  readonly isLocal: (address: IpAddress) => boolean;
}

/** Which clients are in which lists of clients, with the time in seconds for which each stays; undefined: no limit. */
export type Clients = Map<string, Map<string, number | undefined>>;

/** The state of a packet on its way. Steps change it. */
export interface Passage {
  source: IpAddress;
  destination: IpAddress;
  protocol: Protocol;
  port: number;
  /** Empty in hook output. */
  through: string;
  mark: number;
  isTranslated: boolean;
  isMasqueraded: boolean;
  /** The time in seconds for which the list that the client was found in remembers it. */
  affinity: number | undefined;
  readonly clients: Clients;
  readonly node: TracedNode;
  /** Returns the number of the alternative that is taken, given the probability of each. */
  readonly choose: (probabilities: readonly number[]) => number;
}

export type Verdict =
  | { readonly kind: 'accept' | 'drop' | 'reject' | 'return' }
  | { readonly kind: 'jump' | 'goto'; readonly chain: string };

/** A part of a rule: returns whether the rest of the rule applies, or what happens to the packet. */
export type Step = (passage: Passage) => boolean | Verdict;

export interface TracedRule {
  readonly text: string;
  readonly steps: readonly Step[];
}

export interface TracedChain {
  readonly base?: NftHook | undefined;
  readonly rules: readonly TracedRule[];
}

/** Chains by name. The rules of another program are compiled to it, so that one tracer serves all. */
export type Ruleset = ReadonlyMap<string, TracedChain>;
