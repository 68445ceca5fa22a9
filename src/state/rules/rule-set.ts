import type { IpFamily } from '../../base/ip.ts';
import type { KnownDifference } from './known-difference.ts';
import type { RuleSettings } from './rule-settings.ts';

/** The iptables tables to which this program adds rules. */
export const RULE_TABLES = ['mangle', 'nat', 'filter'] as const;
export type RuleTable = (typeof RULE_TABLES)[number];

/** All rules of this program for one IP family: as iptables has them, and what those of nftables mode depend on. */
export interface RuleSet {
  readonly family: IpFamily;
  /** Absent where only names matter, as for the removal of rules. */
  readonly settings?: RuleSettings;
  /** The chains of this program, with their rules. */
  readonly chains: readonly RuleChain[];
  /** Jumps from built-in chains to ours, each inserted at the head: the last one listed comes first in its chain. */
  readonly jumps: readonly RuleJump[];
  /** Tables that the kernel may lack. The text describes what does not work without the table. */
  readonly optionalTables?: Readonly<Partial<Record<RuleTable, string>>>;
}

export interface RuleChain {
  readonly table: RuleTable;
  readonly name: string;
  /** Each rule is a list of arguments, unquoted and without `-A CHAIN`. */
  readonly rules: readonly (readonly string[])[];
}

export interface RuleJump {
  readonly table: RuleTable;
  readonly from: string;
  readonly to: string;
  readonly comment: string;
  /** Whether only the first packet of a connection jumps. */
  readonly onlyNew?: boolean;
  /** `last`: appended after the rules of other programs, so it applies only to packets that those rules let through. */
  readonly position?: 'last';
}

/** A command by which the rules in force differ from those wanted. */
export interface RuleDifference {
  readonly command: string;
  /** Absent if kube-proxy does not explain the difference. */
  readonly known?: KnownDifference;
}

/** Returns the rules without those in these tables. */
export function withoutTables(rules: RuleSet, tables: ReadonlySet<RuleTable>): RuleSet {
  if (tables.size === 0) return rules;
  const isElsewhere = ({ table }: { readonly table: RuleTable }): boolean => !tables.has(table);
  return { ...rules, chains: rules.chains.filter(isElsewhere), jumps: rules.jumps.filter(isElsewhere) };
}
