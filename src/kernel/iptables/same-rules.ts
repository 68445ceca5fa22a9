import type { RuleChain } from '../../state/rules/rule-set.ts';
import { canonicalRule, splitRule } from './iptables-rule.ts';
import type { SavedTables } from './iptables-save.ts';

/** Maps canonical forms of our rules to those that iptables-save prints instead; learned by reading rules back. */
export type Spellings = Map<string, string>;

export function canonical(rule: string): string {
  return canonicalRule(splitRule(rule));
}

/** Whether a rule of iptables-save is the same as ours, which may be spelled in another way. */
function isSameRule(ours: string, found: string, spellings?: Spellings): boolean {
  if (ours === found) return true;
  const [wanted, printed] = [canonical(ours), canonical(found)];
  return wanted === printed || spellings?.get(wanted) === printed;
}

/** Whether a chain has exactly these rules. */
export function isSameChain(
  ours: readonly string[],
  found: readonly string[] | undefined,
  spellings?: Spellings,
): boolean {
  return ours.length === found?.length && ours.every((rule, at) => isSameRule(rule, found[at] ?? '', spellings));
}

/**
 * Records how iptables-save prints the rules just written. Another program may have replaced a rule since, so a rule
 * that names another set, target, address, interface or protocol is not recorded.
 */
export function learnSpellings(chains: readonly RuleChain[], saved: SavedTables, spellings: Spellings): void {
  for (const { table, name, rules } of chains) {
    const present = saved.get(table)?.get(name);
    if (present?.length !== rules.length) continue;
    for (const [index, rule] of rules.entries()) {
      const [wanted, found] = [canonicalRule(rule), canonical(present[index] ?? '')];
      if (wanted !== found && namesIn(wanted) === namesIn(found)) spellings.set(wanted, found);
    }
  }
}

const NAMES = /(?:^| )(?:! )?(?:-[jgsdpio]|--match-set|--dports?|--sports?) \S+/g;

function namesIn(canonicalText: string): string {
  return (canonicalText.match(NAMES) ?? [])
    .map((name) => name.trim())
    .sort()
    .join(' ');
}
