import { RULE_TABLES, type RuleChain, type RuleSet, type RuleTable } from '../../state/rules/rule-set.ts';
import { type RulesInForce, ruleChainKey } from '../../state/rules/rules-in-force.ts';
import { ruleText } from './iptables-rule.ts';
import type { SavedChains, SavedTables, parseCounters } from './iptables-save.ts';
import { type ChainText, chainLines, deletionLines, tableScript } from './iptables-script.ts';
import { jumpGroups, jumpsTo } from './jumps.ts';
import { type Spellings, isSameChain } from './same-rules.ts';

/** Returns a chain with its rules in the words of iptables-save. */
function chainText({ name, rules }: RuleChain): ChainText {
  return { name, rules: rules.map(ruleText) };
}

/** Returns the packets counted by each rule of the chains that are in force. */
export function rulePackets(
  rules: RuleSet,
  saved: SavedTables,
  spellings: Spellings,
  counters: ReturnType<typeof parseCounters>,
): RulesInForce['packets'] {
  const inForce = rules.chains.filter((chain) => isInForce(chain, saved, spellings));
  return new Map(inForce.map((chain) => [ruleChainKey(chain), counters.get(chain.table)?.get(chain.name) ?? []]));
}

function isInForce(chain: RuleChain, saved: SavedTables, spellings?: Spellings): boolean {
  return isSameChain(chainText(chain).rules, saved.get(chain.table)?.get(chain.name), spellings);
}

/**
 * Returns the input for iptables-restore --noflush that establishes the rules, "" if they are in place. A chain that
 * differs is replaced as a whole, atomically per table. If our jumps in a built-in chain are not `right` (JumpPlace),
 * all are replaced. They are not moved ahead of other programs' rules: two programs would keep moving them.
 *
 * @param left chains, as named by displacedJumps, in which displaced jumps are not moved
 */
export function repairScript(
  rules: RuleSet,
  saved: SavedTables,
  spellings: Spellings = new Map(),
  left: ReadonlySet<string> = new Set(),
): string {
  return script(rules, saved, ({ chains, jumps }, table) => {
    const wrong = chains.filter((chain) => !isInForce(chain, saved, spellings));
    const moved = jumpGroups(jumps, saved.get(table)).filter(
      ({ from, place }) => place === 'wrong' || (place === 'displaced' && !left.has(chainLabel(rules, table, from))),
    );
    return [...chainLines(wrong.map(chainText)), ...moved.flatMap(({ lines }) => lines)];
  });
}

/** Returns the built-in chains in which our jumps are displaced (JumpPlace), as named in the log. */
export function displacedJumps(rules: RuleSet, saved: SavedTables): string[] {
  return RULE_TABLES.flatMap((table) =>
    jumpGroups(ofTable(rules, table).jumps, saved.get(table))
      .filter(({ place }) => place === 'displaced')
      .map(({ from }) => chainLabel(rules, table, from)),
  );
}

function chainLabel({ family }: RuleSet, table: RuleTable, from: string): string {
  return `chain ${from} of table ${table}, IPv${family}`;
}

/** Returns whether repairScript would remove rules of a chain: another program's, or ours of another version. */
export function overwrites(rules: RuleSet, saved: SavedTables, spellings?: Spellings): boolean {
  return rules.chains.some((chain) => {
    const present = saved.get(chain.table)?.get(chain.name) ?? [];
    return present.length > 0 && !isInForce(chain, saved, spellings);
  });
}

/**
 * Returns the input for iptables-restore --noflush that removes the jumps and chains; "" if there are none. A chain that other
 * programs' rules jump to stays, empty.
 */
export function removeScript(rules: RuleSet, saved: SavedTables): string {
  return script(rules, saved, ({ chains, jumps }, _table, found) => {
    const going = jumpGroups(jumps, found).flatMap(({ present }) => present);
    const gone = new Set(going.map(({ from, rule }) => `${from} ${rule}`));
    const names = chains.map(({ name }) => name).filter((name) => found.has(name));
    const others = jumpsTo(new Set(names), found).filter(({ from, rule }) => !gone.has(`${from} ${rule}`));
    const inUse = new Set(others.map(({ to }) => to));
    const changed = names.filter((name) => !inUse.has(name) || found.get(name)?.length !== 0);
    return deletionLines(changed, (name) => inUse.has(name), going);
  });
}

type OfTable = Pick<RuleSet, 'chains' | 'jumps'>;

function ofTable({ chains, jumps }: RuleSet, table: RuleTable): OfTable {
  return {
    chains: chains.filter((chain) => chain.table === table),
    jumps: jumps.filter((jump) => jump.table === table),
  };
}

function script(
  rules: RuleSet,
  saved: SavedTables,
  linesOf: (ofTable: OfTable, table: RuleTable, found: SavedChains) => readonly string[],
): string {
  return RULE_TABLES.map((table) =>
    tableScript(table, linesOf(ofTable(rules, table), table, saved.get(table) ?? new Map())),
  ).join('');
}
