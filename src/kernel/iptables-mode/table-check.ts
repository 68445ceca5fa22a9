import type { RuleSettings } from '../../state/rules/rule-settings.ts';
import { canonicalRule, splitRule } from '../iptables/iptables-rule.ts';
import type { SavedTables } from '../iptables/iptables-script.ts';
import { JUMPS, SHARED_CHAINS, baseChains, isNodePortAddressRule, jumpTargets } from './base-chains.ts';
import { OWN_CHAIN } from './chain-names.ts';
import type { ChainText, Rendered, SharedRule, Table } from './service-port.ts';
import { type ChainKey, SHARED_KEYS, TableImage, chainKey, isSameChain, isSameRule } from './table-image.ts';
import { chainLines, section, wholeChain } from './table-change.ts';

const TABLES: readonly Table[] = ['filter', 'nat'];

/** Compares the tables of one family with what they must have. Call add() for each service port, then finish(). */
export class TableCheck {
  readonly #saved: SavedTables;
  readonly image: TableImage;
  readonly #wanted = new Set<ChainKey>();
  readonly #shared = new Map<ChainKey, string[]>();
  /** Chains that are missing or have other rules. */
  readonly #wrong: ChainText[] = [];
  /** The number of rules that the tables must have in our chains. */
  readonly counts: Record<Table, number> = { nat: 0, filter: 0 };

  constructor(saved: SavedTables, settings: RuleSettings) {
    this.#saved = saved;
    this.image = new TableImage(saved);
    for (const chain of SHARED_CHAINS) {
      this.#wanted.add(chainKey(chain));
      this.#shared.set(chainKey(chain), []);
    }
    for (const chain of baseChains(settings)) this.#addChain(chain);
  }

  add({ chains, shared }: Rendered): void {
    for (const chain of chains) this.#addChain(chain);
    for (const rule of shared) this.addShared(rule);
  }

  addShared({ table, chain, rule }: SharedRule): void {
    this.counts[table] += 1;
    this.#shared.get(chainKey({ table, name: chain }))?.push(rule);
  }

  #addChain(chain: ChainText): void {
    const key = chainKey(chain);
    const found = this.#saved.get(chain.table)?.get(chain.name);
    this.#wanted.add(key);
    this.counts[chain.table] += chain.rules.length;
    if (found !== undefined && isSameChain(chain.rules, found)) return;
    this.#wrong.push(chain);
    if (found !== undefined) this.image.differing.add(key);
  }

  /** Completes the image. Returns what is to be repaired. */
  finish(): TableRepair {
    const wrongShared = SHARED_CHAINS.filter((chain) => !this.#checkShared(chain));
    const stale = TABLES.flatMap((table) => this.#staleChains(table));
    const jumps = TABLES.flatMap((table) => jumpRepairs(this.#saved, table));
    const isForeign = (key: ChainKey): boolean => this.image.differing.has(key) || this.image.sharedCount(key) > 0;
    return {
      chains: this.#wrong,
      shared: wrongShared.map((chain) => ({ ...chain, rules: this.#shared.get(chainKey(chain)) ?? [] })),
      stale,
      jumps,
      replacesOthers:
        stale.length > 0 ||
        this.#wrong.some((chain) => isForeign(chainKey(chain))) ||
        wrongShared.some((chain) => isForeign(chainKey(chain))) ||
        jumps.some(({ line }) => line.startsWith('-D')),
    };
  }

  /** Returns whether a shared chain has exactly the rules that it must have, those of node port addresses last. */
  #checkShared({ table, name }: Pick<ChainText, 'table' | 'name'>): boolean {
    const key = chainKey({ table, name });
    const wanted = this.#shared.get(key) ?? [];
    const found = this.#saved.get(table)?.get(name);
    if (found === undefined) return false;
    const known = asOurs(wanted, found);
    this.image.setShared(key, known);
    if (known.length !== wanted.length) return false;
    const missing = new Set(wanted);
    for (const rule of known) if (!missing.delete(rule)) return false;
    const isLast = known.map((rule) => isNodePortAddressRule({ table, chain: name, rule }));
    const firstLast = isLast.indexOf(true);
    return firstLast < 0 || isLast.slice(firstLast).every(Boolean);
  }

  /** Chains of service ports that no longer exist. One that rules of other programs refer to is only emptied. */
  #staleChains(table: Table): readonly StaleChain[] {
    const chains = this.#saved.get(table) ?? new Map<string, readonly string[]>();
    const names = new Set(
      [...chains.keys()].filter((name) => OWN_CHAIN.test(name) && !this.#wanted.has(chainKey({ table, name }))),
    );
    if (names.size === 0) return [];
    const inUse = new Set<string>();
    for (const [chain, rules] of chains) {
      const key = chainKey({ table, name: chain });
      if (names.has(chain) || this.#wanted.has(key) || SHARED_KEYS.has(key)) continue;
      for (const rule of rules) for (const word of splitRule(rule)) if (names.has(word)) inUse.add(word);
    }
    return [...names]
      .map((name) => ({ table, name, isDeleted: !inUse.has(name) }))
      .filter(({ name, isDeleted }) => isDeleted || chains.get(name)?.length !== 0);
  }
}

interface StaleChain {
  readonly table: Table;
  readonly name: string;
  readonly isDeleted: boolean;
}

interface JumpLine {
  readonly table: Table;
  readonly from: string;
  readonly line: string;
}

/** What brings the tables to what they must have. */
export interface TableRepair {
  /** Written whole. */
  readonly chains: readonly ChainText[];
  readonly shared: readonly ChainText[];
  readonly stale: readonly StaleChain[];
  readonly jumps: readonly JumpLine[];
  /** Whether rules are removed that are not among those wanted. */
  readonly replacesOthers: boolean;
}

export const NO_REPAIR: TableRepair = { chains: [], shared: [], stale: [], jumps: [], replacesOthers: false };

export function isNothing({ chains, shared, stale, jumps }: TableRepair): boolean {
  return [chains, shared, stale, jumps].every((part) => part.length === 0);
}

/** Returns the chains that a repair changes, each with its table. */
export function repairedChains({ chains, shared, stale, jumps }: TableRepair): readonly string[] {
  const built = jumps.map(({ table, from }) => `${table} ${from}`);
  return [...new Set([...[...chains, ...shared, ...stale].map(({ table, name }) => `${table} ${name}`), ...built])];
}

/** Returns the input for iptables-restore --noflush; "" if everything is in force. */
export function repairScript(repair: TableRepair): string {
  return TABLES.map((table) => {
    const ofTable = <T extends { readonly table: Table }>(items: readonly T[]): T[] =>
      items.filter((item) => item.table === table);
    const stale = ofTable(repair.stale);
    return section(table, [
      ...ofTable(repair.shared).map(({ name }) => `:${name} - [0:0]`),
      ...stale.map(({ name }) => `:${name} - [0:0]`),
      ...chainLines(ofTable(repair.chains)),
      ...ofTable(repair.shared).flatMap(({ name, rules }) => wholeChain(name, rules).slice(1)),
      ...ofTable(repair.jumps).map(({ line }) => line),
      ...stale.filter(({ isDeleted }) => isDeleted).map(({ name }) => `-X ${name}`),
    ]);
  }).join('');
}

/** Makes the repair in the image, when it has been written. */
export function commitRepair(image: TableImage, { chains, shared, stale }: TableRepair): void {
  for (const chain of [...chains, ...shared]) {
    image.chains.add(chainKey(chain));
    image.differing.delete(chainKey(chain));
  }
  for (const chain of shared) image.setShared(chainKey(chain), chain.rules);
  for (const chain of stale) if (chain.isDeleted) image.chains.delete(chainKey(chain));
}

/** Returns the found rules; those that are ours in another spelling, in ours. */
function asOurs(wanted: readonly string[], found: readonly string[]): readonly string[] {
  const known = new Set(wanted);
  const unknown = found.filter((rule) => !known.has(rule));
  if (unknown.length === 0) return found;
  const canonical = (rule: string): string => canonicalRule(splitRule(rule));
  const here = new Set(found);
  const unmatched = new Map(wanted.filter((rule) => !here.has(rule)).map((rule) => [canonical(rule), rule]));
  return found.map((rule) => (known.has(rule) ? rule : (unmatched.get(canonical(rule)) ?? rule)));
}

/** All jumps of a built-in chain are written again if one is missing, or if their order is wrong. */
function jumpRepairs(saved: SavedTables, table: Table): readonly JumpLine[] {
  const targets = jumpTargets(table);
  const froms = Map.groupBy(
    JUMPS.filter((jump) => jump.table === table),
    ({ from }) => from,
  );
  return Array.from(froms).flatMap(([from, wanted]) => {
    const found = (saved.get(table)?.get(from) ?? []).filter((rule) => isJumpTo(rule, targets));
    if (found.length === wanted.length && wanted.every(({ rule }, at) => isSameRule(rule, found[at] ?? ''))) return [];
    return [
      ...found.map((rule): JumpLine => ({ table, from, line: `-D ${from} ${rule}` })),
      // Each is inserted at the head.
      ...wanted.toReversed().map(({ rule }): JumpLine => ({ table, from, line: `-I ${from} ${rule}` })),
    ];
  });
}

/** Whether a rule has no other matches than jumps of this program, or of kube-proxy in any mode. */
function isJumpTo(rule: string, targets: ReadonlySet<string>): boolean {
  if (!rule.includes('-j KUBE-')) return false;
  const clauses = canonicalRule(splitRule(rule)).split(' | ');
  const rest = clauses.filter((clause) => !clause.startsWith('-m comment ') && clause !== '-m conntrack --ctstate NEW');
  return rest.length === 1 && rest[0]?.startsWith('-j ') === true && targets.has(rest[0].slice(3));
}
