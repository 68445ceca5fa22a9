import type { RuleSettings } from '../../state/rules/rule-settings.ts';
import { chainLines, deletionLines, tableScript } from '../iptables/iptables-script.ts';
import { SHARED_CHAINS, baseChains, isNodePortAddressRule } from './render/node-chains.ts';
import type { RefusedLine } from './refused-lines.ts';
import type { OwnChain, Rendered, SharedRule, Table } from './render/service-port.ts';
import { type ChainKey, SHARED_KEYS, type TableImage, chainKey, ruleKey } from './table-image.ts';

/** Comparisons of rules that deletions may take. Beyond that the chain is written whole, which takes less. */
const MOST_COMPARISONS = 2_000_000;

/** The changes of the tables of one family, and how they change what is there. */
export class TableChange {
  readonly #image: TableImage;
  readonly #written = new Map<ChainKey, OwnChain>();
  readonly #deleted = new Map<ChainKey, Pick<OwnChain, 'table' | 'name'>>();
  readonly #added: SharedRule[] = [];
  readonly #removed: SharedRule[] = [];
  readonly #jumps: Readonly<Record<Table, string[]>> = { filter: [], nat: [] };
  /**
   * The number of rules that the change adds, less those that it removes, for service ports and addresses of the
   * node.
   */
  readonly difference: Record<Table, number> = { filter: 0, nat: 0 };

  constructor(image: TableImage) {
    this.#image = image;
  }

  get isEmpty(): boolean {
    const { size } = this.#written;
    return size + this.#deleted.size + this.#added.length + this.#removed.length + this.#jumpLines.length === 0;
  }

  get #jumpLines(): readonly string[] {
    return [...this.#jumps.filter, ...this.#jumps.nat];
  }

  /** Adds the chains that must exist before rules can refer to them. Those that exist keep their rules. */
  ensureBase(settings: RuleSettings): void {
    for (const chain of [...baseChains(settings), ...SHARED_CHAINS.map((each) => ({ ...each, rules: [] }))]) {
      if (!this.#image.chains.has(chainKey(chain))) this.write(chain);
    }
  }

  /** Writes a chain whole. In a chain that service ports share, the rules of node port addresses come last. */
  write(chain: OwnChain): void {
    this.#written.set(chainKey(chain), inOrder(chain));
  }

  /** Deletes a chain, or empties it if rules of other programs refer to it. */
  delete(chain: Pick<OwnChain, 'table' | 'name'>): void {
    this.#deleted.set(chainKey(chain), chain);
  }

  moveJumps(table: Table, lines: readonly string[]): void {
    this.#jumps[table].push(...lines);
  }

  /** Adds what leads from one state of a service port to another. Equal parts are not written. */
  replace(before: Rendered, after: Rendered): void {
    const known = new Map(before.chains.map((chain) => [chainKey(chain), chain]));
    for (const { table, rules } of before.chains) this.difference[table] -= rules.length;
    for (const chain of after.chains) {
      const key = chainKey(chain);
      const current = known.get(key);
      known.delete(key);
      this.difference[chain.table] += chain.rules.length;
      const inForce = this.#image.chains.has(key) && !this.#image.differing.has(key);
      if (!inForce || current === undefined || !hasSameRules(current, chain)) this.#written.set(key, chain);
    }
    for (const [key, chain] of known) if (this.#image.chains.has(key)) this.#deleted.set(key, chain);
    this.#replaceShared(before.shared, after.shared);
  }

  #replaceShared(before: readonly SharedRule[], after: readonly SharedRule[]): void {
    for (const { table } of before) this.difference[table] -= 1;
    for (const { table } of after) this.difference[table] += 1;
    const wanted = new Map(after.map((rule) => [ruleKey(rule), rule]));
    const gone = new Map(before.map((rule) => [ruleKey(rule), rule]));
    for (const rule of wanted.values()) if (!this.#image.has(rule)) this.#added.push(rule);
    for (const [key, rule] of gone) if (!wanted.has(key) && this.#image.has(rule)) this.#removed.push(rule);
  }

  /**
   * Returns the input for iptables-restore --noflush. It is atomic for each table: so what rejects or drops packets is added
   * before translations end, and removed after they have begun.
   */
  script(): string {
    // A chain that one service port no longer has may be the new one of another.
    for (const key of this.#written.keys()) this.#deleted.delete(key);
    const [filter, nat] = [this.#lines('filter'), this.#lines('nat')];
    return (
      tableScript('filter', filter.additions) +
      tableScript('nat', [...nat.additions, ...nat.removals]) +
      tableScript('filter', filter.removals)
    );
  }

  /** Remembers chains whose deletion was refused because other rules refer to them: they are only emptied. */
  keepReferred(refused: readonly RefusedLine[]): boolean {
    const keys = refused.flatMap(({ table, line }) => {
      const name = /^-X (\S+)$/.exec(line)?.[1];
      return name === undefined ? [] : [chainKey({ table, name })];
    });
    for (const key of keys) this.#image.referred.add(key);
    return keys.length > 0;
  }

  /**
   * Updates the image with what was written before a table of the script was refused: nothing, or only what is added
   * to table filter. The state does not have it, so a full check has to remove it. Returns false if more was written.
   */
  commitTables(written: number): boolean {
    if (written === 0) return true;
    if (written > 1 || this.#lines('filter').additions.length === 0) return false;
    for (const key of this.#written.keys()) {
      if (!key.startsWith('filter ')) continue;
      this.#image.chains.add(key);
      this.#image.differing.add(key);
    }
    for (const rule of this.#added) if (rule.table === 'filter') this.#image.add(rule);
    return true;
  }

  /** Updates the image. Must be called when the changes have been written. */
  commit(): void {
    for (const [key, { rules }] of this.#written) {
      this.#image.chains.add(key);
      this.#image.differing.delete(key);
      if (SHARED_KEYS.has(key)) this.#image.setShared(key, rules);
    }
    for (const key of this.#deleted.keys()) {
      if (!this.#image.referred.has(key)) this.#image.chains.delete(key);
      this.#image.differing.delete(key);
    }
    for (const rule of this.#added) this.#image.add(rule);
    for (const rule of this.#removed) this.#image.remove(rule);
  }

  #lines(table: Table): Readonly<Record<'additions' | 'removals', readonly string[]>> {
    const ofTable = <T extends { readonly table: Table }>(items: Iterable<T>): T[] =>
      [...items].filter((item) => item.table === table);
    const [added, removed] = [ofTable(this.#added), ofTable(this.#removed)];
    const whole = this.#wholeChains(added, removed);
    const isSingle = ({ chain }: SharedRule): boolean => whole.every(({ name }) => name !== chain);
    const deleted = ofTable(this.#deleted.values()).map(({ name }) => name);
    return {
      additions: [
        ...chainLines([...ofTable(this.#written.values()), ...whole]),
        ...added.filter(isSingle).map(insertion),
        ...this.#jumps[table],
      ],
      removals: [
        ...removed.filter(isSingle).map(({ chain, rule }) => `-D ${chain} ${rule}`),
        ...deletionLines(deleted, (name) => this.#image.referred.has(chainKey({ table, name }))),
      ],
    };
  }

  /** Returns the shared chains of a table of which so many rules go that each is written whole. */
  #wholeChains(added: readonly SharedRule[], removed: readonly SharedRule[]): readonly OwnChain[] {
    return Array.from(Map.groupBy(removed, ({ chain }) => chain)).flatMap(([name, rules]) => {
      const [{ table } = { table: 'nat' as const }] = rules;
      const key = chainKey({ table, name });
      if (rules.length * this.#image.sharedCount(key) <= MOST_COMPARISONS) return [];
      const gone = new Set(rules.map(({ rule }) => rule));
      const more = added.filter(({ chain }) => chain === name).map(({ rule }) => rule);
      const left = this.#image.sharedRules(key).filter((rule) => !gone.has(rule));
      return inOrder({ table, name, rules: [...more, ...left] });
    });
  }
}

function inOrder(chain: OwnChain): OwnChain {
  const isLast = (rule: string): boolean => isNodePortAddressRule({ table: chain.table, chain: chain.name, rule });
  return { ...chain, rules: [...chain.rules.filter((rule) => !isLast(rule)), ...chain.rules.filter(isLast)] };
}

/** Inserts at the head, as the rules of node port addresses are last. */
function insertion(shared: SharedRule): string {
  return `${isNodePortAddressRule(shared) ? '-A' : '-I'} ${shared.chain} ${shared.rule}`;
}

function hasSameRules(a: OwnChain, b: OwnChain): boolean {
  return a.rules.length === b.rules.length && a.rules.every((rule, at) => rule === b.rules[at]);
}
