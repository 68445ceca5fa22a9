import { ElementList } from '../../netlink/family/nf-tables/element-list.ts';
import type { NftElement } from '../../netlink/family/nf-tables/element.ts';
import type { VirtualServerId } from '../../state/virtual-server.ts';
import { chunks } from '../linux/slices.ts';
import { type ChainPlan, rulesOf } from './objects/base-chains.ts';
import type { NftMessage } from './port/nft-message.ts';
import type { ElementOf } from './port/nft-port.ts';
import type { ServiceObjects, SharedChains } from './objects/service-objects.ts';
import { ENDPOINTS, SHARED_ENDPOINTS } from './objects/sets.ts';
import type { SharedChain } from './objects/shared-chain.ts';

const NOTHING: ServiceObjects = { elements: [] };

export interface LeftoverEndpoint extends Pick<ElementOf, 'set' | 'key'> {
  /** The virtual server whose shared list it was in. If no list can be the one, it is absent. */
  readonly list?: VirtualServerId;
}

/** What a change does not need any more, but packets that are on their way may need. */
export interface Leftovers {
  /** Endpoints beyond the number of a virtual server. */
  readonly endpoints: readonly LeftoverEndpoint[];
  /** Chains to which a virtual server led. */
  readonly shared: readonly SharedChains[];
}

/** Collects changes of our table of one family, and puts them in an order in which none refers to a missing object. */
export class TableChange {
  readonly #shared = new Map<string, SharedChain>();
  readonly #needed = new Set<string>();
  readonly #deleted = new Map<string, ElementList>();
  readonly #added = new Map<string, ElementList>();
  readonly #leftoverEndpoints: LeftoverEndpoint[] = [];
  readonly #leftoverShared = new Map<string, SharedChains>();
  /** Chains whose rules change, if they exist. */
  readonly #rewritten = new Map<string, ChainPlan>();
  /** Whether a virtual server leads to another chain than before. */
  #moves = false;

  /** The names of the shared chains that must exist, among them all whose rules change. */
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
    this.#replaceElements(before, after);
    if (after.shared !== undefined) this.#need(after.shared);
    if (before.shared === undefined || before.shared.name === after.shared?.name) return;
    if (before.shared.isBorrowed !== true) this.#leftoverShared.set(before.shared.name, before.shared);
    this.#moves ||= after.shared !== undefined;
  }

  /** Changes the rules of a shared chain that must exist, in the same transaction as the elements. */
  rewrite(chain: ChainPlan): void {
    this.#rewritten.set(chain.name, chain);
  }

  /** They must not be deleted together with the changes. */
  get leftovers(): Leftovers {
    return { endpoints: this.#leftoverEndpoints, shared: [...this.#leftoverShared.values()] };
  }

  /** The number of elements that are deleted and added. */
  get size(): number {
    return sizeOf(this.#deleted) + sizeOf(this.#added);
  }

  /** Returns the changes of elements in order. */
  get elements(): readonly NftMessage[] {
    return [...deletionsOf(this.#deleted), ...additionsOf(this.#added)];
  }

  #rewriting(existing: ReadonlySet<string>): readonly NftMessage[] {
    const chains = [...this.#rewritten.values()].filter(({ name }) => existing.has(name));
    return [...chains.map(({ name }): NftMessage => ({ kind: 'flush-chain', name })), ...chains.flatMap(rulesOf)];
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
    const rewriting = this.#rewriting(existing);
    const isLarge = this.size + creation.length + rewriting.length > most;
    const all = isLarge
      ? [...chunks(creation, most), ...this.#inParts(rewriting, most)]
      : this.#moves
        ? [creation, [...this.elements, ...rewriting]]
        : [[...creation, ...this.elements, ...rewriting]];
    return all.filter(({ length }) => length > 0);
  }

  #inParts(rewriting: readonly NftMessage[], most: number): readonly (readonly NftMessage[])[] {
    const deleted = new Map(this.#deleted);
    const added = new Map(this.#added);
    const before: (readonly NftMessage[])[] = [];
    const after: (readonly NftMessage[])[] = [];
    for (const set of [ENDPOINTS, SHARED_ENDPOINTS]) {
      const gone = new Map(Array.from(deleted.get(set) ?? [], (element) => [bytesText(element.key), element]));
      for (const some of chunks([...(added.get(set) ?? [])], Math.ceil(most / 2))) {
        const replaced = some.flatMap(({ key }) => gone.get(bytesText(key)) ?? []);
        for (const { key } of replaced) gone.delete(bytesText(key));
        before.push([...deletionsOf(endpointLists(set, replaced)), ...additionsOf(endpointLists(set, some))]);
      }
      for (const some of chunks([...gone.values()], most)) after.push(deletionsOf(endpointLists(set, some)));
      deleted.delete(set);
      added.delete(set);
    }
    return [...before, [...deletionsOf(deleted), ...additionsOf(added), ...rewriting], ...after];
  }

  #need({ name, chains }: SharedChains): void {
    if (this.#needed.has(name)) return;
    this.#needed.add(name);
    for (const shared of chains()) this.#shared.set(shared.chain.name, shared);
  }

  #replaceElements({ elements: before, list }: ServiceObjects, { elements: after, shared }: ServiceObjects): void {
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
      if (element.set === SHARED_ENDPOINTS) this.#leftoverEndpoints.push({ ...element, ...(list && { list }) });
      else if (element.set === ENDPOINTS && shared !== undefined) this.#leftoverEndpoints.push(element);
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

function endpointLists(set: string, elements: readonly NftElement[]): ElementLists {
  if (elements.length === 0) return new Map();
  const list = new ElementList();
  for (const { key, data } of elements) list.add(key, data);
  return new Map([[set, list]]);
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
