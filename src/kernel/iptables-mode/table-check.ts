import type { RuleSettings } from '../../state/rules/rule-settings.ts';
import type { SavedTables } from '../iptables/iptables-save.ts';
import { jumpGroups, jumpsTo } from '../iptables/jumps.ts';
import { canonical, isSameChain } from '../iptables/same-rules.ts';
import { JUMPS, SHARED_CHAINS, baseChains, isNodePortAddressRule, jumpTargets } from './render/node-chains.ts';
import { OWN_CHAIN } from './render/chain-names.ts';
import type { OwnChain, Rendered, SharedRule, Table } from './render/service-port.ts';
import { TableChange } from './table-change.ts';
import { type ChainKey, SHARED_KEYS, TableImage, chainKey } from './table-image.ts';

/** The result of comparing the tables of one family with the wanted rules. */
export interface TableCheckResult {
  readonly image: TableImage;
  /**
   * The changes that repair the tables. Undefined if something was written since: then only another reading shows
   * what is left to repair.
   */
  repair: TableChange | undefined;
  /** Whether the repair removes rules that are not among those wanted. */
  readonly replacesOthers: boolean;
  /** The wanted number of rules in our chains. */
  readonly counts: Readonly<Record<Table, number>>;
}

/** Compares the tables of one family with the wanted rules. Call add() for each service port, then finish(). */
export class TableCheck {
  readonly #saved: SavedTables;
  readonly #image: TableImage;
  readonly #repair: TableChange;
  readonly #wanted = new Set<ChainKey>(SHARED_KEYS);
  readonly #shared = new Map<ChainKey, string[]>(Array.from(SHARED_KEYS, (key) => [key, []]));
  readonly #counts: Record<Table, number> = { nat: 0, filter: 0 };
  #replacesOthers = false;

  constructor(saved: SavedTables, settings: RuleSettings) {
    this.#saved = saved;
    this.#image = new TableImage(saved);
    this.#repair = new TableChange(this.#image);
    for (const chain of baseChains(settings)) this.#addChain(chain);
  }

  add({ chains, shared }: Rendered): void {
    for (const chain of chains) this.#addChain(chain);
    for (const rule of shared) this.addShared(rule);
  }

  addShared({ table, chain, rule }: SharedRule): void {
    this.#counts[table] += 1;
    this.#shared.get(chainKey({ table, name: chain }))?.push(rule);
  }

  #addChain(chain: OwnChain): void {
    const key = chainKey(chain);
    const found = this.#saved.get(chain.table)?.get(chain.name);
    this.#wanted.add(key);
    this.#counts[chain.table] += chain.rules.length;
    if (isSameChain(chain.rules, found)) return;
    this.#repair.write(chain);
    if (found === undefined) return;
    this.#image.differing.add(key);
    this.#replacesOthers = true;
  }

  finish(): TableCheckResult {
    for (const { table, name } of SHARED_CHAINS) this.#checkShared(table, name);
    for (const table of ['filter', 'nat'] as const) {
      this.#deleteSurplus(table);
      this.#checkJumps(table);
    }
    return {
      image: this.#image,
      repair: this.#repair,
      replacesOthers: this.#replacesOthers,
      counts: this.#counts,
    };
  }

  /** A shared chain must have exactly its rules, in any order, but those of node port addresses last. */
  #checkShared(table: Table, name: string): void {
    const key = chainKey({ table, name });
    const wanted = this.#shared.get(key) ?? [];
    const found = this.#saved.get(table)?.get(name);
    const known = found === undefined ? [] : asOurs(wanted, found);
    if (found !== undefined) this.#image.setShared(key, known);
    const missing = new Set(wanted);
    const hasAll = known.length === wanted.length && known.every((rule) => missing.delete(rule));
    const isLast = (rule: string): boolean => isNodePortAddressRule({ table, chain: name, rule });
    const firstLast = known.findIndex(isLast);
    const isInOrder = firstLast < 0 || known.slice(firstLast).every(isLast);
    if (found !== undefined && hasAll && isInOrder) return;
    this.#repair.write({ table, name, rules: wanted });
    this.#replacesOthers ||= known.length > 0;
  }

  /** Deletes chains of service ports that no longer exist. One that rules of other programs refer to is only emptied. */
  #deleteSurplus(table: Table): void {
    const chains = this.#saved.get(table) ?? new Map<string, readonly string[]>();
    const isWanted = (name: string): boolean => this.#wanted.has(chainKey({ table, name }));
    const surplus = new Set([...chains.keys()].filter((name) => OWN_CHAIN.test(name) && !isWanted(name)));
    const jumps = jumpsTo(surplus, chains, (name) => surplus.has(name) || isWanted(name));
    const inUse = new Set(jumps.map(({ to }) => to));
    for (const name of inUse) this.#image.referred.add(chainKey({ table, name }));
    for (const name of surplus) {
      if (inUse.has(name) && chains.get(name)?.length === 0) continue;
      this.#repair.delete({ table, name });
      this.#replacesOthers = true;
    }
  }

  /** All jumps of a built-in chain are written again if one is missing, or if their order is wrong. */
  #checkJumps(table: Table): void {
    const jumps = JUMPS.filter((jump) => jump.table === table);
    for (const { place, present, lines } of jumpGroups(jumps, this.#saved.get(table), jumpTargets(table))) {
      if (place === 'right') continue;
      this.#repair.moveJumps(table, lines);
      this.#replacesOthers ||= present.length > 0;
    }
  }
}

/** Returns the found rules; those that are ours in another spelling, in ours. */
function asOurs(wanted: readonly string[], found: readonly string[]): readonly string[] {
  const known = new Set(wanted);
  if (found.every((rule) => known.has(rule))) return found;
  const here = new Set(found);
  const unmatched = new Map(wanted.filter((rule) => !here.has(rule)).map((rule) => [canonical(rule), rule]));
  return found.map((rule) => (known.has(rule) ? rule : (unmatched.get(canonical(rule)) ?? rule)));
}
