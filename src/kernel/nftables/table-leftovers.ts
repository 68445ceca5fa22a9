import type { IpFamily } from '../../base/ip.ts';
import { type VirtualServerId, virtualServerKey } from '../../state/virtual-server.ts';
import { chunks } from '../linux/slices.ts';
import { isAffinityChain } from './objects/affinity-chains.ts';
import { isFirewallChain } from './objects/firewall-objects.ts';
import { indexOfKey, serviceOfKey, sharedIndexOfKey } from './objects/keys.ts';
import { MOST_ELEMENTS, type NftMessage } from './port/nft-message.ts';
import type { NftPort, NftRefusal } from './port/nft-port.ts';
import { type SharedChains, readFirstChain } from './objects/service-objects.ts';
import { ENDPOINTS } from './objects/sets.ts';
import { type Deletion, type SharedChain, deleteChain, deleteSet, deletionsOf } from './objects/shared-chain.ts';
import { findLists, isListChain, listChainName } from './objects/shared-list.ts';
import { type LeftoverEndpoint, type Leftovers, TableChange, elementId } from './table-change.ts';
import { type Head, findHeads } from './table-reader.ts';

/** Attempts while other programs change the ruleset. The last ones wait for the next occasion. */
const ATTEMPTS = 3;

/** The table of a family. A transaction with `generation` fails if any program has changed the ruleset since. */
export interface WritableTable {
  readonly port: NftPort;
  readonly family: IpFamily;
  commit(messages: readonly NftMessage[], generation: number): Promise<NftRefusal | undefined>;
}

/**
 * What changes have left in a table of one family, until it is deleted. A packet passes the rules of the generation in which
 * it came, but finds the elements of the latest one (net/netfilter/nf_tables_core.c: nft_do_chain; nft_set_hash.c), so one
 * transaction with both would make it miss an endpoint.
 */
export class TableLeftovers {
  /** By the ids of elements. */
  readonly #endpoints = new Map<string, LeftoverEndpoint>();
  readonly #shared = new Map<string, SharedChains>();

  get isEmpty(): boolean {
    return this.#endpoints.size === 0 && this.#shared.size === 0;
  }

  add({ endpoints, shared }: Leftovers): void {
    for (const endpoint of endpoints) this.#endpoints.set(elementId(endpoint), endpoint);
    // A full check deletes the others: their number is small, and they may be needed again soon.
    for (const each of shared)
      if ([isAffinityChain, isFirewallChain, isListChain].some((is) => is(each.name)))
        this.#shared.set(each.name, each);
  }

  /**
   * Deletes what is not in use again. What cannot be deleted stays for the next time, or for a check of the rules. Returns
   * whether the kernel refused nothing.
   */
  async remove(table: WritableTable): Promise<boolean> {
    let isRefused = false;
    // The endpoints of a list are needed as long as its chain.
    if (this.#shared.size > 0) isRefused = (await attempts(() => this.#removeShared(table))) === 'refused';
    for (const some of chunks([...this.#endpoints.values()], MOST_ELEMENTS)) {
      isRefused = (await attempts(() => this.#removeEndpoints(table, some))) === 'refused' || isRefused;
    }
    return !isRefused;
  }

  /** Returns why it could not. */
  async #removeEndpoints(table: WritableTable, left: readonly LeftoverEndpoint[]): Promise<Unchanged> {
    const { port, family } = table;
    const lists = unique(left.flatMap(({ list }) => list ?? []));
    const owners = unique(left.flatMap(({ set, key }) => (set === ENDPOINTS ? (serviceOfKey(key, family) ?? []) : [])));
    const { generation, found } = await findHeads(port, family, owners);
    // A list whose virtual server is gone has others that lead to its chain until they are written.
    const targets = await findLists(port, family, lists);
    const { elements, chains, ...now } = await port.lookUp(family, {
      elements: left,
      chains: lists.map(listChainName),
    });
    if (now.generation !== generation) return 'meanwhile';
    const counts = new Map(found.map((head) => [virtualServerKey(head.id), countOf(head)]));
    const sizes = new Map(Array.from(targets, ([key, { chain }]) => [key, readFirstChain(chain)?.count ?? Infinity]));
    const countAt = ({ set, key, list }: LeftoverEndpoint): number | undefined => {
      const owner = set === ENDPOINTS ? serviceOfKey(key, family) : list;
      return owner === undefined ? 0 : (set === ENDPOINTS ? counts : sizes).get(virtualServerKey(owner));
    };
    const held = left.filter((each) => {
      return each.list !== undefined && countAt(each) === undefined && chains.has(listChainName(each.list));
    });
    const kept = new Set(held);
    const change = new TableChange();
    const present = new Set(elements.map(elementId));
    for (const each of left) {
      const index = each.set === ENDPOINTS ? indexOfKey(each.key, family) : sharedIndexOfKey(each.key);
      const isFree = index >= (countAt(each) ?? 0) && !kept.has(each);
      if (isFree && present.has(elementId(each))) change.deleteElement(each.set, each);
    }
    const unchanged = await write(table, change.elements, generation);
    if (unchanged === undefined) for (const each of left) if (!kept.has(each)) this.#endpoints.delete(elementId(each));
    return unchanged;
  }

  /** Returns why it could not. */
  async #removeShared(table: WritableTable): Promise<Unchanged> {
    const left = new Set(this.#shared.keys());
    const shared = new Map<string, SharedChain>();
    for (const { chains } of this.#shared.values()) for (const each of chains()) shared.set(each.chain.name, each);
    const { generation, chains } = await table.port.lookUp(table.family, { chains: [...shared.keys()] });
    const unchanged = await write(table, deletionsOf(leftoversOf([...shared.values()], chains)), generation);
    // What the kernel refuses to delete, another program uses. A check of the rules tries each, and the log says which.
    if (unchanged !== 'meanwhile') for (const name of left) this.#shared.delete(name);
    return unchanged;
  }
}

function unique(ids: readonly VirtualServerId[]): readonly VirtualServerId[] {
  return [...new Map(ids.map((id) => [virtualServerKey(id), id])).values()];
}

/** Why nothing was deleted: another program changed the ruleset meanwhile, or the kernel refused it. */
type Unchanged = 'meanwhile' | 'refused' | undefined;

async function attempts(remove: () => Promise<Unchanged>): Promise<Unchanged> {
  let unchanged: Unchanged = 'meanwhile';
  for (let attempt = 1; attempt <= ATTEMPTS && unchanged === 'meanwhile'; attempt++) unchanged = await remove();
  return unchanged;
}

async function write(table: WritableTable, messages: readonly NftMessage[], generation: number): Promise<Unchanged> {
  const refusal = messages.length === 0 ? undefined : await table.commit(messages, generation);
  if (refusal === undefined) return undefined;
  return refusal.code === 'ERESTART' ? 'meanwhile' : 'refused';
}

/** What another program misled has the endpoints that it needs when it is repaired, which writes it whole. */
function countOf({ count, list, misled }: Head): number {
  if (misled) return Infinity;
  return list === undefined ? count : 0;
}

/** Returns the chains to which nothing leads, and their sets. `uses`: of those that exist, as NftFindings has them. */
function leftoversOf(shared: readonly SharedChain[], uses: ReadonlyMap<string, number>): readonly Deletion[] {
  const released = new Map<string, number>();
  const leftovers: SharedChain[] = [];
  // Those that lead to others come first.
  const rank = ({ chain, elements }: SharedChain): number => (isListChain(chain.name) ? Infinity : elements.length);
  for (const each of shared.toSorted((a, b) => Number(rank(a) < rank(b)) - Number(rank(a) > rank(b)))) {
    const { name, rules } = each.chain;
    const use = uses.get(name);
    if (use === undefined || use - (released.get(name) ?? 0) !== rules.length) continue;
    leftovers.push(each);
    for (const target of targetsOf(each)) released.set(target, (released.get(target) ?? 0) + 1);
  }
  return leftovers.flatMap(({ chain, sets }) => [deleteChain(chain.name), ...sets.map(({ name }) => deleteSet(name))]);
}

/** The chains to which a chain and the elements of its map lead, once for each of them. */
function targetsOf({ chain, elements }: SharedChain): readonly string[] {
  const data = [
    ...chain.rules
      .flatMap(({ expressions }) => expressions)
      .flatMap((step) => (step.name === 'immediate' ? [step.data] : [])),
    ...elements.flatMap((element) => element.data ?? []),
  ];
  return data.flatMap((each) => ('verdict' in each ? (each.verdict?.chain ?? []) : []));
}
