import { ElementList } from '../../netlink/family/nf-tables/element-list.ts';
import type { NftElement } from '../../netlink/family/nf-tables/element.ts';
import { chunks } from '../linux/slices.ts';
import type { ChainPlan } from './base-chains.ts';
import type { Left, LeftEndpoint } from './leavings.ts';
import type { NftMessage } from './nft-message.ts';
import type { ElementOf } from './nft-port.ts';
import type { ServiceObjects, SharedChains } from './service-objects.ts';
import { ENDPOINTS } from './sets.ts';
import type { SharedChain } from './shared-chain.ts';

const NOTHING: ServiceObjects = { elements: [] };

/** Collects changes of our table of one family, and puts them in an order in which none refers to a missing object. */
export class TableChange {
  readonly #shared = new Map<string, SharedChain>();
  readonly #needed = new Set<string>();
  readonly #deleted = new Map<string, ElementList>();
  readonly #added = new Map<string, ElementList>();
  readonly #leftEndpoints: LeftEndpoint[] = [];
  readonly #leftShared = new Map<string, SharedChains>();
  /** Whether a virtual server leads to another chain than before. */
  #moves = false;

  /** The names of the shared chains that must exist. */
  get shared(): readonly string[] {
    return [...this.#shared.keys()];
  }

  addElement(set: string, { key, data, isEnd }: NftElement): void {
    listOf(this.#added, set).add(key, data, isEnd);
  }

  deleteElement(set: string, { key, isEnd }: NftElement): void {
    listOf(this.#deleted, set).add(key, undefined, isEnd);
  }

  /** Adds the changes from one state of an object to another. Equal parts are not written. */
  replace(before: ServiceObjects = NOTHING, after: ServiceObjects = NOTHING): void {
    this.#replaceElements(before.elements, after);
    if (after.shared !== undefined) this.#need(after.shared);
    if (before.shared === undefined || before.shared.name === after.shared?.name) return;
    this.#leftShared.set(before.shared.name, before.shared);
    this.#moves ||= after.shared !== undefined;
  }

  /** What becomes superfluous by the changes, but is not to be deleted with them. */
  get left(): Left {
    return { endpoints: this.#leftEndpoints, shared: [...this.#leftShared.values()] };
  }

  /** The number of elements that are deleted and added. */
  get size(): number {
    return sizeOf(this.#deleted) + sizeOf(this.#added);
  }

  /** Returns the changes of elements in order. */
  get elements(): readonly NftMessage[] {
    return [...deletionsOf(this.#deleted), ...additionsOf(this.#added)];
  }

  /**
   * Returns the changes as transactions in order, none of them empty. `existing`: the shared chains that exist. Chains to
   * which virtual servers move are one of their own: in the generation before that of its creation, a chain is empty, and a
   * packet passes the rules of the generation in which it came. Beyond `most` messages and elements, endpoints are written
   * before what leads to them, and deleted after it.
   */
  transactions(existing: ReadonlySet<string>, most: number): readonly (readonly NftMessage[])[] {
    const shared = [...this.#shared.values()].filter(({ chain }) => !existing.has(chain.name));
    const creation = creationOf(shared);
    const isLarge = this.size + creation.length > most;
    const all = isLarge
      ? [...chunks(creation, most), ...this.#inParts(most)]
      : this.#moves
        ? [creation, this.elements]
        : [[...creation, ...this.elements]];
    return all.filter(({ length }) => length > 0);
  }

  #inParts(most: number): readonly (readonly NftMessage[])[] {
    const deleted = new Map(this.#deleted);
    const added = new Map(this.#added);
    const gone = new Map(Array.from(deleted.get(ENDPOINTS) ?? [], (element) => [bytesText(element.key), element]));
    deleted.delete(ENDPOINTS);
    const before = Array.from(chunks([...(added.get(ENDPOINTS) ?? [])], Math.ceil(most / 2)), (some) => {
      const replaced = some.flatMap(({ key }) => gone.get(bytesText(key)) ?? []);
      for (const { key } of replaced) gone.delete(bytesText(key));
      return [...deletionsOf(endpointLists(replaced)), ...additionsOf(endpointLists(some))];
    });
    added.delete(ENDPOINTS);
    const after = Array.from(chunks([...gone.values()], most), (some) => deletionsOf(endpointLists(some)));
    return [...before, [...deletionsOf(deleted), ...additionsOf(added)], ...after];
  }

  #need({ name, chains }: SharedChains): void {
    if (this.#needed.has(name)) return;
    this.#needed.add(name);
    for (const shared of chains()) this.#shared.set(shared.chain.name, shared);
  }

  #replaceElements(before: ServiceObjects['elements'], { elements: after, shared }: ServiceObjects): void {
    if (before.length === 0) {
      for (const element of after) this.addElement(element.set, element);
      return;
    }
    const surplus = new Map(before.map((element) => [elementId(element), element]));
    for (const element of after) {
      const id = elementId(element);
      const current = surplus.get(id);
      surplus.delete(id);
      if (current !== undefined && sameData(current, element)) continue;
      if (current !== undefined) this.deleteElement(element.set, element);
      this.addElement(element.set, element);
    }
    for (const element of surplus.values()) {
      if (element.set === ENDPOINTS && shared !== undefined) this.#leftEndpoints.push(element);
      else this.deleteElement(element.set, element);
    }
  }
}

type ElementLists = ReadonlyMap<string, ElementList>;

function sizeOf(lists: ElementLists): number {
  let size = 0;
  for (const list of lists.values()) size += list.size;
  return size;
}

function deletionsOf(lists: ElementLists): readonly NftMessage[] {
  return Array.from(lists, ([set, elements]) => ({ kind: 'delete-elements', set, elements }));
}

function additionsOf(lists: ElementLists): readonly NftMessage[] {
  return Array.from(lists, ([set, elements]) => ({ kind: 'new-elements', set, elements }));
}

function endpointLists(elements: readonly NftElement[]): ElementLists {
  if (elements.length === 0) return new Map();
  const list = new ElementList();
  for (const { key, data } of elements) list.add(key, data);
  return new Map([[ENDPOINTS, list]]);
}

function creationOf(shared: readonly SharedChain[]): NftMessage[] {
  const lists = new Map<string, ElementList>();
  for (const { elements } of shared) {
    for (const { set, key, data, isEnd } of elements) listOf(lists, set).add(key, data, isEnd);
  }
  return [
    ...shared.flatMap(({ sets }) => sets.map((set): NftMessage => ({ kind: 'new-set', set }))),
    // A chain refers only to chains after it, so these must exist before its rules.
    ...shared.map(({ chain }): NftMessage => ({ kind: 'new-chain', chain: { name: chain.name } })),
    ...shared.flatMap(({ chain }) => rulesOf(chain)),
    ...additionsOf(lists),
  ];
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
export function elementId({ set, key, isEnd }: Pick<ElementOf, 'set' | 'key' | 'isEnd'>): string {
  return `${set} ${bytesText(key)}${isEnd === true ? ' end' : ''}`;
}

/** Whether both elements have the same verdict or value. */
export function sameData({ data: a }: NftElement, { data: b }: NftElement): boolean {
  if (a === undefined || b === undefined) return a === b;
  if ('verdict' in a) return 'verdict' in b && a.verdict.chain === b.verdict.chain && a.verdict.code === b.verdict.code;
  return 'value' in b && bytesText(a.value) === bytesText(b.value);
}
