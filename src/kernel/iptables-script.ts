import type { RuleChain, RuleJump, RuleSet } from '../state/rule-set.ts';
import { canonicalRule, quoteArgument, splitRule } from './iptables-rule.ts';

/** Rules of each chain of each table, as iptables-save prints them: without "-A CHAIN". */
export type SavedTables = ReadonlyMap<string, ReadonlyMap<string, readonly string[]>>;

/** Reads what iptables-save prints. Lines that it cannot place (comments, warnings) are skipped. */
export function parseSave(text: string): SavedTables {
  const tables = new Map<string, Map<string, string[]>>();
  let chains = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) {
      chains = new Map();
      tables.set(line.slice(1).trim(), chains);
    } else if (line.startsWith(':')) {
      chains.set(line.slice(1, line.indexOf(' ')), []);
    } else if (line.startsWith('-A ')) {
      const [, chain = '', rule = ''] = /^-A (\S+) ?(.*)$/.exec(line) ?? [];
      chains.get(chain)?.push(rule);
    }
  }
  return tables;
}

/** Rules that iptables-save prints otherwise than canonicalRule foresees: ours to theirs, learnt from a read-back. */
export type Spellings = Map<string, string>;

/**
 * What iptables-restore --noflush must read to make the rules so, "" when they are. A chain that differs is rewritten
 * whole, which the kernel does at once for a table; so are our jumps of a built-in chain when one is missing, doubled, or in
 * the wrong order among ours. Where they stand among the jumps of others is left alone, or two programs would fight.
 */
export function repairScript(rules: RuleSet, saved: SavedTables, spellings: Spellings = new Map()): string {
  return script(rules, (table) => {
    const chains = saved.get(table);
    const ours = rules.chains.filter((chain) => chain.table === table);
    const wrong = ours.filter((chain) => !sameRules(chain, chains?.get(chain.name), spellings));
    // Chains first, all of them: a rule may jump to one that is declared later.
    return [
      ...wrong.map(({ name }) => `:${name} - [0:0]`),
      ...wrong.flatMap(({ name, rules: wanted }) =>
        wanted.map((rule) => `-A ${name} ${rule.map(quoteArgument).join(' ')}`),
      ),
      ...jumpRepairs(
        rules.jumps.filter((jump) => jump.table === table),
        chains,
      ),
    ];
  });
}

/** Whether repairScript would take rules out of a chain: somebody else's of the same name, or ours of another version. */
export function overwrites(rules: RuleSet, saved: SavedTables, spellings: Spellings = new Map()): boolean {
  return rules.chains.some((chain) => {
    const present = saved.get(chain.table)?.get(chain.name) ?? [];
    return present.length > 0 && !sameRules(chain, present, spellings);
  });
}

/** What iptables-restore --noflush must read to take the jumps and chains away; "" when nothing is there. */
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
      // Declaring a chain that exists empties it. One that rules of others jump to must stay, empty.
      ...ours
        .filter(({ name }) => !inUse.has(name) || chains.get(name)?.length !== 0)
        .map(({ name }) => `:${name} - [0:0]`),
      ...ours.filter(({ name }) => !inUse.has(name)).map(({ name }) => `-X ${name}`),
    ];
  });
}

/** Remembers how iptables-save spells rules that were just written and are otherwise in place. */
export function learnSpellings(rules: RuleSet, saved: SavedTables, spellings: Spellings): void {
  for (const chain of rules.chains) {
    const present = saved.get(chain.table)?.get(chain.name);
    if (present?.length !== chain.rules.length) continue;
    chain.rules.forEach((rule, index) => {
      const wanted = canonicalRule(rule);
      const found = canonicalRule(splitRule(present[index] ?? ''));
      if (wanted !== found) spellings.set(wanted, found);
    });
  }
}

function script(rules: RuleSet, linesOf: (table: string) => string[]): string {
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

// Each jump is inserted first in turn, so the last of the list stands first in the chain; those that go last are appended.
function jumpRepairs(jumps: readonly RuleJump[], chains: ReadonlyMap<string, readonly string[]> | undefined): string[] {
  return groupJumps(jumps).flatMap(([from, group]) => {
    const all = chains?.get(from) ?? [];
    const present = ourJumps(group, all);
    const last = group.filter(({ position }) => position === 'last');
    const first = group.filter(({ position }) => position !== 'last');
    const wanted = [...first.toReversed(), ...last];
    const ordered = present.length === wanted.length && wanted.every(({ to }, index) => present[index]?.to === to);
    const behindAll = last.every((_, index) => present[first.length + index]?.at === all.length - last.length + index);
    if (ordered && behindAll) return [];
    return [
      ...present.map(({ rule }) => `-D ${from} ${rule}`),
      ...group.map(({ comment, to, position }) => {
        const verb = position === 'last' ? '-A' : '-I';
        return `${verb} ${from} -m comment --comment ${quoteArgument(comment)} -j ${to}`;
      }),
    ];
  });
}

interface PresentJump {
  /** Index in its chain. */
  readonly at: number;
  readonly rule: string;
  readonly to: string;
}

/** Rules that do nothing but jump to one of these chains, whatever their comment says. */
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

/** Chains that would still be jumped to when our jumps and our chains' rules are gone. */
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
