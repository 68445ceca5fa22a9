import type { OpFailure } from '../outcome.ts';
import type { RuleDifference, RuleTable } from './rule-set.ts';

/** How the iptables rules in force compare with planned ones. */
export interface RulesInForce {
  /** The commands by which they differ; none if they are in force. */
  readonly missing: readonly RuleDifference[];
  /** The packets that each rule has counted, by chain; absent for a chain whose rules differ. */
  readonly packets: ReadonlyMap<RuleChainKey, readonly number[]>;
}

/** What a check of the rules wrote. */
export interface RulesWritten {
  readonly changed: boolean;
  readonly chains: readonly string[];
  /** Operations that waited for the rules, came into force with them, and were refused. */
  readonly failures?: readonly OpFailure[];
}

export const UNCHANGED_RULES: RulesWritten = { changed: false, chains: [] };

export type RuleChainKey = `${RuleTable} ${string}`;

export function ruleChainKey({ table, name }: { readonly table: RuleTable; readonly name: string }): RuleChainKey {
  return `${table} ${name}`;
}
