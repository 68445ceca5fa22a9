import type { NftData } from '../../netlink/family/nf-tables/data.ts';
import { ElementList } from '../../netlink/family/nf-tables/element-list.ts';
import type { NftElement } from '../../netlink/family/nf-tables/element.ts';
import type { ChainPlan } from './base-chains.ts';
import type { NftMessage, SetDefinition } from './nft-message.ts';
import type { ElementOf } from './nft-port.ts';
import { sameRules } from './same-rules.ts';
import type { ServiceObjects, SharedChains } from './service-objects.ts';
import type { SharedChain } from './shared-chain.ts';

const NOTHING: ServiceObjects = { elements: [], chains: [], sets: [] };

/** Collects changes of our table of one family, and puts them in an order in which none refers to a missing object. */
export class TableChange {
  readonly #sets = new Map<string, SetDefinition>();
  readonly #shared = new Map<string, SharedChain>();
  readonly #needed = new Set<string>();
  readonly #newChains: ChainPlan[] = [];
  readonly #rewritten: ChainPlan[] = [];
  readonly #deleted = new Map<string, ElementList>();
  readonly #added = new Map<string, ElementList>();
  readonly #goneChains: string[] = [];
  readonly #goneSets: string[] = [];

  /** The names of the shared chains that must exist. */
  get shared(): readonly string[] {
    return [...this.#shared.keys()];
  }

  addSet(set: SetDefinition): void {
    this.#sets.set(set.name, set);
  }

  addElement(set: string, key: Uint8Array, data?: NftData): void {
    listOf(this.#added, set).add(key, data);
  }

  deleteElement(set: string, key: Uint8Array): void {
    listOf(this.#deleted, set).add(key);
  }

  /** Adds the changes from one state of an object to another. Equal parts are not written. */
  replace(before: ServiceObjects = NOTHING, after: ServiceObjects = NOTHING): void {
    this.#replaceElements(before.elements, after.elements);
    this.#replaceChains(before.chains, after.chains);
    const kept = new Set(after.sets.map(({ name }) => name));
    const known = new Set(before.sets.map(({ name }) => name));
    for (const set of after.sets) if (!known.has(set.name)) this.addSet(set);
    for (const { name } of before.sets) if (!kept.has(name)) this.#goneSets.push(name);
    if (after.shared !== undefined) this.#need(after.shared);
  }

  /** Returns the changes in order. `existing`: the shared chains that exist. */
  messages(existing: ReadonlySet<string>): NftMessage[] {
    const shared = [...this.#shared.values()].filter(({ chain }) => !existing.has(chain.name));
    for (const { sets, elements } of shared) {
      for (const set of sets) this.addSet(set);
      for (const { set, key, data } of elements) this.addElement(set, key, data);
    }
    // A chain refers only to chains after it, so these must exist before its rules.
    const created = [...shared.map(({ chain }) => chain), ...this.#newChains];
    return [
      ...Array.from(this.#sets.values(), (set): NftMessage => ({ kind: 'new-set', set })),
      ...created.map((chain): NftMessage => ({ kind: 'new-chain', chain: { name: chain.name } })),
      ...this.#rewritten.map(({ name }): NftMessage => ({ kind: 'flush-chain', name })),
      ...[...created, ...this.#rewritten].flatMap(rulesOf),
      ...Array.from(this.#deleted, ([set, elements]): NftMessage => ({ kind: 'delete-elements', set, elements })),
      ...Array.from(this.#added, ([set, elements]): NftMessage => ({ kind: 'new-elements', set, elements })),
      ...this.#goneChains.map((name): NftMessage => ({ kind: 'delete-chain', name })),
      ...this.#goneSets.map((name): NftMessage => ({ kind: 'delete-set', name })),
    ];
  }

  #need({ name, chains }: SharedChains): void {
    if (this.#needed.has(name)) return;
    this.#needed.add(name);
    for (const shared of chains()) this.#shared.set(shared.chain.name, shared);
  }

  #replaceElements(before: ServiceObjects['elements'], after: ServiceObjects['elements']): void {
    if (before.length === 0) {
      for (const { set, key, data } of after) this.addElement(set, key, data);
      return;
    }
    const surplus = new Map(before.map((element) => [elementId(element), element]));
    for (const element of after) {
      const id = elementId(element);
      const current = surplus.get(id);
      if (current !== undefined && sameData(current, element)) surplus.delete(id);
      else this.addElement(element.set, element.key, element.data);
    }
    for (const { set, key } of surplus.values()) this.deleteElement(set, key);
  }

  #replaceChains(before: readonly ChainPlan[], after: readonly ChainPlan[]): void {
    const surplus = new Map(before.map((chain) => [chain.name, chain]));
    for (const chain of after) {
      const current = surplus.get(chain.name);
      surplus.delete(chain.name);
      if (current === undefined) this.#newChains.push(chain);
      else if (!sameRules(current.rules, chain.rules)) this.#rewritten.push(chain);
    }
    for (const name of surplus.keys()) this.#goneChains.push(name);
  }
}

export function rulesOf({ name, rules }: ChainPlan): NftMessage[] {
  return rules.map((expressions) => ({ kind: 'new-rule', chain: name, expressions }));
}

function listOf(lists: Map<string, ElementList>, set: string): ElementList {
  const known = lists.get(set);
  if (known !== undefined) return known;
  const list = new ElementList();
  lists.set(set, list);
  return list;
}

/** Returns bytes as text, for comparisons and as the key of a Map. */
export function bytesText(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

/** Returns what tells an element of our table from all others. */
export function elementId({ set, key }: Pick<ElementOf, 'set' | 'key'>): string {
  return `${set} ${bytesText(key)}`;
}

/** Whether both elements have the same verdict or value. */
function sameData({ data: a }: NftElement, { data: b }: NftElement): boolean {
  if (a === undefined || b === undefined) return a === b;
  if ('verdict' in a) return 'verdict' in b && a.verdict.chain === b.verdict.chain && a.verdict.code === b.verdict.code;
  return 'value' in b && bytesText(a.value) === bytesText(b.value);
}
