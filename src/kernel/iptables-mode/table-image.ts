import { ownCopy } from '../../base/text/own-copy.ts';
import type { SavedTables } from '../iptables/iptables-save.ts';
import { SHARED_CHAINS } from './render/node-chains.ts';
import type { OwnChain, SharedRule, Table } from './render/service-port.ts';

/** Identifies a chain: its table and name. */
export type ChainKey = `${Table} ${string}`;

export function chainKey({ table, name }: Pick<OwnChain, 'table' | 'name'>): ChainKey {
  return `${table} ${name}`;
}

export function ruleKey({ table, chain, rule }: SharedRule): string {
  return `${table} ${chain} ${rule}`;
}

export const SHARED_KEYS: ReadonlySet<ChainKey> = new Set(SHARED_CHAINS.map(chainKey));

/**
 * What the tables have, as far as it matters to changes: the last complete reading, and what was written since. The texts of
 * single chains are not kept: they are what the state means, except in `differing` chains.
 */
export class TableImage {
  readonly chains = new Set<ChainKey>();
  /** Our chains whose rules differ from the wanted ones. */
  readonly differing = new Set<ChainKey>();
  /** Chains of ours to which rules of other programs refer, as far as it is known. */
  readonly referred = new Set<ChainKey>();
  /** The rules of the chains that service ports share, with their number, in order. */
  readonly #shared = new Map<ChainKey, Map<string, number>>();

  constructor(saved: SavedTables) {
    for (const table of ['nat', 'filter'] as const) {
      for (const name of saved.get(table)?.keys() ?? []) this.chains.add(chainKey({ table, name }));
    }
  }

  /** Keeps the rules of a shared chain. Those that are ours are known in our spelling. */
  setShared(key: ChainKey, rules: Iterable<string>): void {
    const counts = new Map<string, number>();
    for (const found of rules) {
      const rule = ownCopy(found);
      counts.set(rule, (counts.get(rule) ?? 0) + 1);
    }
    this.#shared.set(key, counts);
  }

  sharedRules(key: ChainKey): readonly string[] {
    return [...(this.#shared.get(key) ?? [])].flatMap(([rule, count]) => Array.from({ length: count }, () => rule));
  }

  sharedCount(key: ChainKey): number {
    return this.#shared.get(key)?.size ?? 0;
  }

  has({ table, chain, rule }: SharedRule): boolean {
    return this.#shared.get(chainKey({ table, name: chain }))?.has(rule) === true;
  }

  add({ table, chain, rule }: SharedRule): void {
    const key = chainKey({ table, name: chain });
    const counts = this.#shared.get(key) ?? new Map<string, number>();
    counts.set(rule, (counts.get(rule) ?? 0) + 1);
    this.#shared.set(key, counts);
  }

  remove({ table, chain, rule }: SharedRule): void {
    const counts = this.#shared.get(chainKey({ table, name: chain }));
    const count = counts?.get(rule) ?? 0;
    if (count > 1) counts?.set(rule, count - 1);
    else counts?.delete(rule);
  }
}
