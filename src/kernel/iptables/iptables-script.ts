import { ownCopy } from '../../base/text/own-copy.ts';
import type { RuleChain, RuleJump, RuleSet, RuleTable } from '../../state/rules/rule-set.ts';
import { type RulesInForce, ruleChainKey } from '../../state/rules/rules-in-force.ts';
import { canonicalRule, quoteArgument, splitRule } from './iptables-rule.ts';

/** Rules by table and chain, as printed by iptables-save, without "-A CHAIN". */
export type SavedTables = ReadonlyMap<string, ReadonlyMap<string, readonly string[]>>;

/**
 * Parses the output of iptables-save, also with counters. Skips all other lines (comments, warnings). The rules keep the text in
 * memory, the names of chains do not.
 */
export function parseSave(text: string): SavedTables {
  return readSave(text, (_packets, rule) => rule);
}

/**
 * Returns the tables that exist but are not printed: iptables-nft-save writes only a comment about a table with a rule that
 * iptables does not know, and succeeds.
 */
export function unprintedTables(text: string): readonly string[] {
  const named = Array.from(text.matchAll(/^# Table [`'"]?(\w+)\b/gm), ([, table = '']) => table);
  return named.filter((table) => !new RegExp(`^\\*${table}\\s*$`, 'm').test(text));
}

/** Parses the packets that each rule has counted, from the output of iptables-save --counters. */
export function parseCounters(text: string): ReadonlyMap<string, ReadonlyMap<string, readonly number[]>> {
  return readSave(text, (packets) => packets);
}

function readSave<T>(text: string, read: (packets: number, rule: string) => T): Map<string, Map<string, T[]>> {
  const tables = new Map<string, Map<string, T[]>>();
  let chains = new Map<string, T[]>();
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) {
      chains = new Map();
      tables.set(line.slice(1).trim(), chains);
    } else if (line.startsWith(':')) {
      chains.set(ownCopy(line.slice(1, line.indexOf(' '))), []);
    } else {
      const [, packets, chain = '', rule = ''] = /^(?:\[(\d+):\d+\] )?-A (\S+) ?(.*)$/.exec(line) ?? [];
      chains.get(chain)?.push(read(Number(packets ?? 0), rule));
    }
  }
  return tables;
}

/** Returns the packets counted by each rule of the chains that are in force. */
export function rulePackets(
  rules: RuleSet,
  saved: SavedTables,
  spellings: Spellings,
  counters: ReturnType<typeof parseCounters>,
): RulesInForce['packets'] {
  const inForce = rules.chains.filter((chain) => sameRules(chain, saved.get(chain.table)?.get(chain.name), spellings));
  return new Map(inForce.map((chain) => [ruleChainKey(chain), counters.get(chain.table)?.get(chain.name) ?? []]));
}

/** Maps canonical forms of our rules to those that iptables-save prints instead; learned by reading rules back. */
export type Spellings = Map<string, string>;

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
  return script(rules, (table) => {
    const chains = saved.get(table);
    const ours = rules.chains.filter((chain) => chain.table === table);
    const wrong = ours.filter((chain) => !sameRules(chain, chains?.get(chain.name), spellings));
    // Declare all chains first: a rule may jump to a later one.
    return [
      ...wrong.map(({ name }) => `:${name} - [0:0]`),
      ...wrong.flatMap(({ name, rules: wanted }) =>
        wanted.map((rule) => `-A ${name} ${rule.map(quoteArgument).join(' ')}`),
      ),
      ...groupJumps(rules.jumps.filter((jump) => jump.table === table)).flatMap(([from, group]) => {
        const place = placeOf(group, chains?.get(from) ?? []);
        const isLeft = place === 'displaced' && left.has(chainLabel(rules, table, from));
        return place === 'right' || isLeft ? [] : jumpRepair(from, group, chains?.get(from) ?? []);
      }),
    ];
  });
}

/** Returns the built-in chains in which our jumps are displaced (JumpPlace), as named in the log. */
export function displacedJumps(rules: RuleSet, saved: SavedTables): string[] {
  const byTable = Map.groupBy(rules.jumps, ({ table }) => table);
  return Array.from(byTable).flatMap(([table, jumps]) =>
    groupJumps(jumps)
      .filter(([from, group]) => placeOf(group, saved.get(table)?.get(from) ?? []) === 'displaced')
      .map(([from]) => chainLabel(rules, table, from)),
  );
}

function chainLabel({ family }: RuleSet, table: RuleTable, from: string): string {
  return `chain ${from} of table ${table}, IPv${family}`;
}

/** Returns whether repairScript would remove rules of a chain: another program's, or ours of another version. */
export function overwrites(rules: RuleSet, saved: SavedTables, spellings: Spellings = new Map()): boolean {
  return rules.chains.some((chain) => {
    const present = saved.get(chain.table)?.get(chain.name) ?? [];
    return present.length > 0 && !sameRules(chain, present, spellings);
  });
}

/** Returns the input for iptables-restore --noflush that removes the jumps and chains; "" if there are none. */
export function removeScript(rules: RuleSet, saved: SavedTables): string {
  return script(rules, (table) => {
    const chains = saved.get(table) ?? new Map<string, readonly string[]>();
    const jumps = rules.jumps.filter((jump) => jump.table === table);
    const deletions = groupJumps(jumps).flatMap(([from, group]) =>
      ourJumps(group, chains.get(from) ?? []).map(({ rule }) => `-D ${from} ${rule}`),
    );
    const ours = rules.chains.filter((chain) => chain.table === table && chains.has(chain.name));
    const inUse = referredChains(chains, ours, jumps);
    return [
      ...deletions,
      // Declaring an existing chain flushes it. A chain that other programs' rules jump to stays, empty.
      ...ours
        .filter(({ name }) => !inUse.has(name) || chains.get(name)?.length !== 0)
        .map(({ name }) => `:${name} - [0:0]`),
      ...ours.filter(({ name }) => !inUse.has(name)).map(({ name }) => `-X ${name}`),
    ];
  });
}

/**
 * Records how iptables-save prints the rules just written. Another program may have replaced a rule since, so a rule
 * that names another set, target, address, interface or protocol is not recorded.
 */
export function learnSpellings(rules: RuleSet, saved: SavedTables, spellings: Spellings): void {
  for (const chain of rules.chains) {
    const present = saved.get(chain.table)?.get(chain.name);
    if (present?.length !== chain.rules.length) continue;
    chain.rules.forEach((rule, index) => {
      const wanted = canonicalRule(rule);
      const found = canonicalRule(splitRule(present[index] ?? ''));
      if (wanted !== found && namesIn(wanted) === namesIn(found)) spellings.set(wanted, found);
    });
  }
}

const NAMES = /(?:^| )(?:! )?(?:-[jgsdpio]|--match-set|--dports?|--sports?) \S+/g;

function namesIn(canonical: string): string {
  return (canonical.match(NAMES) ?? [])
    .map((name) => name.trim())
    .sort()
    .join(' ');
}

/** Returns the lines of this input of iptables-restore, each with its table. */
export function scriptLines(text: string): { readonly table: string; readonly line: string }[] {
  let table = '';
  return text.split('\n').flatMap((line) => {
    if (line.startsWith('*')) table = line.slice(1);
    return line.startsWith('-') || line.startsWith(':') ? [{ table, line }] : [];
  });
}

/** Returns the chains that a script changes, each with its table. */
export function scriptChains(text: string): string[] {
  const chains = new Set<string>();
  let table = '';
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1);
    const [, chain] = /^(?::|-\w )(\S+)/.exec(line) ?? [];
    if (chain !== undefined) chains.add(`${table} ${chain}`);
  }
  return [...chains];
}

function script(rules: RuleSet, linesOf: (table: RuleTable) => string[]): string {
  const tables = new Set([...rules.chains, ...rules.jumps].map(({ table }) => table));
  let text = '';
  for (const table of tables) {
    const lines = linesOf(table);
    if (lines.length > 0) text += `*${table}\n${lines.join('\n')}\nCOMMIT\n`;
  }
  return text;
}

function sameRules(chain: RuleChain, present: readonly string[] | undefined, spellings: Spellings): boolean {
  if (present?.length !== chain.rules.length) return false;
  return chain.rules.every((rule, index) => {
    const wanted = canonicalRule(rule);
    const found = canonicalRule(splitRule(present[index] ?? ''));
    return wanted === found || spellings.get(wanted) === found;
  });
}

function groupJumps(jumps: readonly RuleJump[]): [string, RuleJump[]][] {
  return [...Map.groupBy(jumps, ({ from }) => from)];
}

/**
 * `displaced`: all our jumps are present and in the right order, so they work. But one is duplicated, or rules of other
 * programs follow a jump with position `last`.
 */
type JumpPlace = 'right' | 'displaced' | 'wrong';

function placeOf(group: readonly RuleJump[], all: readonly string[]): JumpPlace {
  const present = ourJumps(group, all);
  const wanted = inChainOrder(group);
  const firsts = present.filter(({ to }, index) => present.findIndex((other) => other.to === to) === index);
  if (firsts.length !== wanted.length || wanted.some(({ to }, index) => firsts[index]?.to !== to)) return 'wrong';
  const last = wanted.filter(({ position }) => position === 'last').length;
  const behindAll = present.slice(-last).every(({ at }, index) => at === all.length - last + index);
  return present.length === wanted.length && (last === 0 || behindAll) ? 'right' : 'displaced';
}

// Each jump is inserted at the head in turn, so the last of the list is first in the chain. `last` jumps are appended.
function inChainOrder(group: readonly RuleJump[]): RuleJump[] {
  const first = group.filter(({ position }) => position !== 'last');
  return [...first.toReversed(), ...group.filter(({ position }) => position === 'last')];
}

function jumpRepair(from: string, group: readonly RuleJump[], all: readonly string[]): string[] {
  return [
    ...ourJumps(group, all).map(({ rule }) => `-D ${from} ${rule}`),
    ...group.map(({ comment, to, position }) => {
      const verb = position === 'last' ? '-A' : '-I';
      return `${verb} ${from} -m comment --comment ${quoteArgument(comment)} -j ${to}`;
    }),
  ];
}

interface PresentJump {
  /** Index in its chain. */
  readonly at: number;
  readonly rule: string;
  readonly to: string;
}

/** Returns the unconditional jumps to the target chains of `jumps`, whatever their comments. */
function ourJumps(jumps: readonly RuleJump[], present: readonly string[]): PresentJump[] {
  const targets = new Set(jumps.map(({ to }) => to));
  return present.flatMap((rule, at) => {
    const to = bareJump(rule);
    return to !== undefined && targets.has(to) ? [{ at, rule, to }] : [];
  });
}

function bareJump(rule: string): string | undefined {
  const clauses = canonicalRule(splitRule(rule)).split(' | ');
  const rest = clauses.filter((clause) => !clause.startsWith('-m comment '));
  return rest.length === 1 && rest[0]?.startsWith('-j ') === true ? rest[0].slice(3) : undefined;
}

/** Returns our chains that rules outside of our chains still refer to once our jumps are removed. */
function referredChains(
  chains: ReadonlyMap<string, readonly string[]>,
  ours: readonly RuleChain[],
  jumps: readonly RuleJump[],
): Set<string> {
  const names = new Set(ours.map(({ name }) => name));
  const referred = new Set<string>();
  for (const [chain, present] of chains) {
    if (names.has(chain)) continue;
    const group = jumps.filter(({ from }) => from === chain);
    const going = new Set(ourJumps(group, present).map(({ rule }) => rule));
    for (const rule of present) {
      if (going.has(rule)) continue;
      const args = splitRule(rule);
      args.forEach((word, at) => {
        if ((word === '-j' || word === '-g') && names.has(args[at + 1] ?? '')) referred.add(args[at + 1] ?? '');
      });
    }
  }
  return referred;
}
