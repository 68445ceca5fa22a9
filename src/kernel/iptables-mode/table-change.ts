import { SHARED_CHAINS, baseChains, isNodePortAddressRule } from './base-chains.ts';
import type { RuleSettings } from '../../state/rules/rule-settings.ts';
import type { RefusedLine } from './refused-lines.ts';
import { type ChainText, type Rendered, type SharedRule, type Table } from './service-port.ts';
import { type ChainKey, type TableImage, chainKey } from './table-image.ts';

/** Comparisons of rules that deletions may take. Beyond that the chain is written whole, which takes less. */
const MOST_COMPARISONS = 2_000_000;

/** The changes of the tables of one family, and how they change what is there. */
export class TableChange {
  readonly #image: TableImage;
  readonly #written = new Map<ChainKey, ChainText>();
  readonly #deleted = new Map<ChainKey, ChainText>();
  readonly #added: SharedRule[] = [];
  readonly #removed: SharedRule[] = [];

  constructor(image: TableImage) {
    this.#image = image;
  }

  /** Adds the chains that must exist before rules can refer to them. Those that exist keep their rules. */
  ensureBase(settings: RuleSettings): void {
    for (const chain of [...baseChains(settings), ...SHARED_CHAINS.map((each) => ({ ...each, rules: [] }))]) {
      if (!this.#image.chains.has(chainKey(chain))) this.#written.set(chainKey(chain), chain);
    }
  }

  /** Adds what leads from one state of a service port to another. Equal parts are not written. */
  replace(before: Rendered, after: Rendered): void {
    const known = new Map(before.chains.map((chain) => [chainKey(chain), chain]));
    for (const chain of after.chains) {
      const key = chainKey(chain);
      const current = known.get(key);
      known.delete(key);
      const inForce = this.#image.chains.has(key) && !this.#image.differing.has(key);
      if (!inForce || current === undefined || !hasSameRules(current, chain)) this.#written.set(key, chain);
    }
    for (const [key, chain] of known) if (this.#image.chains.has(key)) this.#deleted.set(key, chain);
    this.replaceShared(before.shared, after.shared);
  }

  replaceShared(before: readonly SharedRule[], after: readonly SharedRule[]): void {
    const wanted = new Map(after.map((rule) => [sharedKey(rule), rule]));
    const gone = new Map(before.map((rule) => [sharedKey(rule), rule]));
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
    const filter = this.#lines('filter');
    const nat = this.#lines('nat');
    const first = section('filter', [...filter.chains, ...filter.added]);
    const last = section('filter', [...filter.removed, ...filter.deleted]);
    return first + section('nat', [...nat.chains, ...nat.added, ...nat.removed, ...nat.deleted]) + last;
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
   * Makes in the image what was written before a table of the script was refused: none, or only what is added to table filter.
   * The state does not have it, so a full check has to remove it. Returns false if more was written.
   */
  commitTables(written: number): boolean {
    if (written === 0) return true;
    if (written > 1 || !this.#isFilterFirst()) return false;
    for (const key of this.#written.keys()) {
      if (!key.startsWith('filter ')) continue;
      this.#image.chains.add(key);
      this.#image.differing.add(key);
    }
    for (const rule of this.#added) if (rule.table === 'filter') this.#image.add(rule);
    return true;
  }

  #isFilterFirst(): boolean {
    const isFilter = ({ table }: { readonly table: Table }): boolean => table === 'filter';
    return this.#added.some(isFilter) || [...this.#written.values()].some(isFilter);
  }

  /** Makes the changes in the image, when they have been written. */
  commit(): void {
    for (const [key, chain] of this.#written) {
      this.#image.chains.add(key);
      this.#image.differing.delete(chainKey(chain));
    }
    for (const key of this.#deleted.keys()) {
      if (!this.#image.referred.has(key)) this.#image.chains.delete(key);
      this.#image.differing.delete(key);
    }
    for (const rule of this.#added) this.#image.add(rule);
    for (const rule of this.#removed) this.#image.remove(rule);
  }

  #lines(table: Table) {
    const ofTable = <T extends { readonly table: Table }>(items: Iterable<T>): T[] =>
      [...items].filter((item) => item.table === table);
    const deleted = ofTable(this.#deleted.values());
    const { added, removed } = this.#sharedLines(ofTable(this.#added), ofTable(this.#removed));
    return {
      chains: chainLines(ofTable(this.#written.values())),
      added,
      removed,
      // Declaring an existing chain flushes it, so that none of them refers to another.
      deleted: [
        ...deleted.map(({ name }) => `:${name} - [0:0]`),
        ...deleted.filter((chain) => !this.#image.referred.has(chainKey(chain))).map(({ name }) => `-X ${name}`),
      ],
    };
  }

  #sharedLines(added: readonly SharedRule[], removed: readonly SharedRule[]) {
    const ofChain = Map.groupBy(removed, ({ table, chain }) => chainKey({ table, name: chain }));
    const whole = new Set<ChainKey>();
    for (const [key, rules] of ofChain) {
      if (rules.length * this.#image.sharedCount(key) > MOST_COMPARISONS) whole.add(key);
    }
    const isSingle = ({ table, chain }: SharedRule): boolean => !whole.has(chainKey({ table, name: chain }));
    return {
      added: [
        ...added.filter(isSingle).map(insertion),
        ...[...whole].flatMap((key) => this.#wholeChain(key, added, removed)),
      ],
      removed: removed.filter(isSingle).map(({ chain, rule }) => `-D ${chain} ${rule}`),
    };
  }

  /** Returns the lines that write a shared chain with its changes. */
  #wholeChain(key: ChainKey, added: readonly SharedRule[], removed: readonly SharedRule[]): readonly string[] {
    const isHere = ({ table, chain }: SharedRule): boolean => chainKey({ table, name: chain }) === key;
    const gone = new Set(removed.filter(isHere).map(({ rule }) => rule));
    const [, name = ''] = key.split(' ');
    const rules = [
      ...added.filter(isHere).map(({ rule }) => rule),
      ...this.#image.sharedRules(key).filter((rule) => !gone.has(rule)),
    ];
    return wholeChain(name, rules);
  }
}

/** Returns the lines that write a shared chain with these rules. */
export function wholeChain(name: string, rules: readonly string[]): readonly string[] {
  const isLast = (rule: string): boolean => isNodePortAddressRule({ table: 'nat', chain: name, rule });
  const ordered = [...rules.filter((rule) => !isLast(rule)), ...rules.filter(isLast)];
  return [`:${name} - [0:0]`, ...ordered.map((rule) => `-A ${name} ${rule}`)];
}

/** Inserts at the head, as the rules of node port addresses are last. */
function insertion(shared: SharedRule): string {
  return `${isNodePortAddressRule(shared) ? '-A' : '-I'} ${shared.chain} ${shared.rule}`;
}

/**
 * Returns the lines that write whole chains. All are declared before a rule refers to one, and in order: with thousands of chains,
 * iptables-nft-restore otherwise takes several times as long.
 */
export function chainLines(chains: readonly ChainText[]): readonly string[] {
  return [
    ...chains.map(({ name }) => `:${name} - [0:0]`).sort(),
    ...chains.flatMap(({ name, rules }) => rules.map((rule) => `-A ${name} ${rule}`)),
  ];
}

export function section(table: Table, lines: readonly string[]): string {
  return lines.length === 0 ? '' : `*${table}\n${lines.join('\n')}\nCOMMIT\n`;
}

function hasSameRules(a: ChainText, b: ChainText): boolean {
  return a.rules.length === b.rules.length && a.rules.every((rule, at) => rule === b.rules[at]);
}

function sharedKey({ table, chain, rule }: SharedRule): string {
  return `${table} ${chain} ${rule}`;
}
