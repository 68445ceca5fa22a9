import type { IpFamily } from '../net/ip.ts';

/** The tables that our rules live in. */
export const RULE_TABLES = ['mangle', 'nat', 'filter'] as const;
export type RuleTable = (typeof RULE_TABLES)[number];

/** The rules that belong to one family, whole: kept in force, repaired when someone flushed them. */
export interface RuleSet {
  readonly family: IpFamily;
  /** What iptables-restore reads (all tables), from plan/: our chains with their rules. */
  readonly chains: readonly RuleChain[];
  /** Jumps from the built-in chains to ours, each inserted first in turn: the last one listed stands first in its chain. */
  readonly jumps: readonly RuleJump[];
}

export interface RuleChain {
  readonly table: RuleTable;
  readonly name: string;
  /** Each rule without `-A CHAIN`, one string an argument: the helper quotes. */
  readonly rules: readonly (readonly string[])[];
}

export interface RuleJump {
  readonly table: RuleTable;
  readonly from: string;
  readonly to: string;
  readonly comment: string;
  /** `last`: appended instead, behind everyone else's rules, to decide only what they left open. */
  readonly position?: 'last';
}
