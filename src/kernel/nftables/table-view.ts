import type { IpFamily } from '../../base/ip.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import type { Endpoint } from '../../state/real-server.ts';
import type { ExpectedServers } from '../kernel.ts';
import type { OwnTransactions } from '../own-transactions.ts';
import { ListOrder, type RecalledList } from './objects/list-order.ts';
import type { NftMessage } from './port/nft-message.ts';
import type { LeftoverEndpoint } from './table-change.ts';
import { TableLeftovers } from './table-leftovers.ts';
import type { NftPort, NftRefusal } from './port/nft-port.ts';
import { listNumbers, listOfKey, sharedKey } from './objects/keys.ts';
import { SHARED_ENDPOINTS } from './objects/sets.ts';
import { readListChain, readLists } from './objects/shared-list.ts';
import {
  HEADS,
  type Head,
  type ObservedService,
  type Services,
  findEndpoints,
  findHeads,
  readEndpoints,
  readHeads,
} from './table-reader.ts';
import type { FoundTraits } from './objects/trait-elements.ts';
import {
  type ExpectedTraits,
  type TraitsByServer,
  expectedElements,
  expectedTraits,
  findTraits,
  readTraits,
} from './trait-reader.ts';

/** From this number of virtual servers on, reading all may be faster than asking for each. */
export const MANY = 512;
/** Reading all is faster from this part of all on. */
const LARGE_PART = 0.5;
/** Attempts to read virtual servers while other programs change the ruleset. The last one takes what it reads. */
const ATTEMPTS = 3;

/**
 * Reads and writes the table of one family. It keeps what was read last, together with the generation of the ruleset,
 * which every transaction of any program changes. A change therefore reads a virtual server once: it is compared and
 * written as it was read, and the kernel refuses the transaction if the generation is another one by then.
 */
export class TableView {
  readonly port: NftPort;
  readonly family: IpFamily;
  readonly #own: OwnTransactions | undefined;
  #generation: number | undefined;
  /** Undefined: it does not exist. */
  #heads = new Map<VirtualServerKey, Head | undefined>();
  #services = new Map<VirtualServerKey, ObservedService>();
  /** Where they are as expected, without what else a virtual server may have. */
  #traits = new Map<VirtualServerKey, FoundTraits | undefined>();
  readonly #order = new ListOrder();
  readonly leftovers = new TableLeftovers();
  /** About how many virtual servers the table has: as listed, and as written since. */
  #size = 0;
  /** Whether each of these chains exists. */
  #chains = new Map<string, boolean>();
  /** All virtual servers whose endpoints nobody has asked for yet. */
  #listed: readonly Head[] | Map<VirtualServerKey, ObservedService> | undefined;

  constructor(port: NftPort, family: IpFamily, own?: OwnTransactions) {
    this.port = port;
    this.family = family;
    this.#own = own;
  }

  /** Of what was read last; undefined if nothing is known. */
  get generation(): number | undefined {
    return this.#generation;
  }

  /** Returns all virtual servers, without endpoints. A full check then asks for the endpoints of all of them, in parts. */
  async listHeads(): Promise<readonly Head[]> {
    const { generation, found } = await this.#afterGeneration(readHeads);
    this.forget();
    this.#generation = generation;
    this.#size = found.length;
    if (found.length > 1) this.#listed = found;
    // Nobody asks for the endpoints of several.
    else await this.#readListed(found);
    return found;
  }

  /** Returns those of these virtual servers that exist, without endpoints. Always reads them. */
  async findHeads(ids: readonly ExpectedTraits[]): Promise<readonly Head[]> {
    const { generation, found, others } = isLargePart(ids.length, this.#size)
      ? { ...(await this.#afterGeneration(readHeads)), others: [] }
      : await findHeads(this.port, this.family, ids, expectedElements(ids));
    this.#see(generation);
    this.#services = new Map();
    this.#traits = new Map(expectedTraits(this.family, others));
    this.#heads = new Map(ids.map((id) => [virtualServerKey(id), undefined]));
    for (const head of found) {
      const key = virtualServerKey(head.id);
      if (this.#heads.has(key)) this.#heads.set(key, head);
    }
    return [...this.#heads.values()].filter((head) => head !== undefined);
  }

  /**
   * Returns those of these virtual servers that exist. Reads endpoints, but not again what findHeads() has read, and of
   * large lists only those that are not expected.
   */
  async findServices(ids: readonly VirtualServerId[], expected?: ExpectedServers): Promise<Services> {
    const listed = await this.#takeListed(ids);
    if (listed !== undefined) return listed;
    for (let attempt = 1; ; attempt++) {
      const heads = this.#knownHeads(ids) ?? (await this.findHeads(ids));
      if (heads.length === 0) return new Map();
      const before = this.#generation;
      const { generation, found } = await findEndpoints(this.port, this.family, heads, this.#recall(heads, expected));
      this.#see(generation);
      if (generation !== before && attempt < ATTEMPTS) continue;
      // What is forgotten will be read whole.
      if (!this.#checkOrder(found)) continue;
      this.#services = new Map(found);
      return found;
    }
  }

  /** Returns what the table says of the traits of these virtual servers. Does not read again what it has read. */
  async findTraits(ids: readonly VirtualServerId[]): Promise<TraitsByServer> {
    const unknown = ids.filter((id) => !this.#traits.has(virtualServerKey(id)));
    if (unknown.length > 0) {
      const { generation, found } = isLargePart(unknown.length, this.#size)
        ? await this.#afterGeneration(readTraits)
        : await findTraits(this.port, this.family, unknown);
      this.#see(generation);
      for (const id of unknown) this.#traits.set(virtualServerKey(id), found.get(virtualServerKey(id)));
    }
    const known = new Map<VirtualServerKey, FoundTraits>();
    for (const id of ids) {
      const found = this.#traits.get(virtualServerKey(id));
      if (found !== undefined) known.set(virtualServerKey(id), found);
    }
    return known;
  }

  /** Remembers the endpoints of a virtual server as they were written. */
  remember(id: VirtualServerId, endpoints: readonly Endpoint[]): void {
    this.#order.remember(virtualServerKey(id), endpoints);
  }

  /** What was recalled of these virtual servers is wrong. */
  forgetOrder(ids: readonly VirtualServerId[]): void {
    for (const id of ids) this.#order.forget(virtualServerKey(id));
  }

  /** Returns those of these virtual servers that exist, if findServices() has read all of them. */
  knownServices(ids: readonly VirtualServerId[]): Services | undefined {
    const known = new Map<VirtualServerKey, ObservedService>();
    for (const id of ids) {
      const key = virtualServerKey(id);
      if (!this.#heads.has(key)) return undefined;
      const service = this.#services.get(key);
      if (service !== undefined) known.set(key, service);
      else if (this.#heads.get(key) !== undefined) return undefined;
    }
    return known;
  }

  /** Returns which of these chains exist. */
  async findChains(names: readonly string[]): Promise<ReadonlySet<string>> {
    const unknown = names.filter((name) => !this.#chains.has(name));
    if (unknown.length > 0) {
      const { generation, chains } = await this.port.lookUp(this.family, { chains: unknown });
      this.#see(generation);
      for (const name of unknown) this.#chains.set(name, chains.has(name));
    }
    return new Set(names.filter((name) => this.#chains.get(name) === true));
  }

  /** Whether the ruleset still has this generation; true for none. */
  async stillHas(generation: number | undefined): Promise<boolean> {
    if (generation === undefined) return true;
    this.#see((await this.port.lookUp(this.family, {})).generation);
    return this.#generation === generation;
  }

  /**
   * Executes all messages or none; with `generation`, only if the ruleset still has it. Then what was read of other virtual
   * servers than `changed` is still true.
   */
  async commit(
    messages: readonly NftMessage[],
    generation: number | undefined,
    changed: readonly VirtualServerId[] = [],
  ): Promise<NftRefusal | undefined> {
    const refusal = await this.port.commit(this.family, messages, generation);
    if (refusal === undefined) this.#count(messages);
    if (refusal === undefined && generation !== undefined) this.#own?.record(generation, nextOf(generation));
    if (refusal !== undefined || generation === undefined || generation !== this.#generation) this.forget();
    else this.#advance(generation, messages, changed);
    return refusal;
  }

  /** Returns how many endpoints a virtual server had when it was read last; 0 if that is not known any more. */
  countOf(id: VirtualServerId): number {
    return this.#heads.get(virtualServerKey(id))?.count ?? 0;
  }

  forget(): void {
    this.#generation = undefined;
    this.#heads = new Map();
    this.#services = new Map();
    this.#traits = new Map();
    this.#chains = new Map();
    this.#listed = undefined;
  }

  /**
   * Returns those of these virtual servers that listHeads() has listed, if the ruleset is still the same. The endpoints
   * of all are read together when they are first asked for, and given out once.
   */
  async #takeListed(ids: readonly VirtualServerId[]): Promise<Services | undefined> {
    let listed = this.#listed;
    // A question about a single one is not part of a full check.
    if (listed === undefined || ids.length < 2) return undefined;
    if (!(listed instanceof Map)) listed = await this.#readListed(listed);
    const { generation } = await this.port.lookUp(this.family, {});
    this.#see(generation);
    // Something was written meanwhile, also by a change of ours during a full check.
    if (this.#listed === undefined) return undefined;
    this.#listed = listed;
    const taken = new Map<VirtualServerKey, ObservedService>();
    for (const id of ids) {
      const key = virtualServerKey(id);
      const service = listed.get(key);
      if (service === undefined) return undefined;
      taken.set(key, service);
    }
    for (const key of taken.keys()) listed.delete(key);
    return taken;
  }

  /** Reads the endpoints of all virtual servers. Those that none has were left by a process that stopped, for example. */
  async #readListed(heads: readonly Head[]): Promise<Map<VirtualServerKey, ObservedService>> {
    const others: LeftoverEndpoint[] = [];
    const lists = await this.#readLenders(heads);
    const services = await readEndpoints(this.port, this.family, heads, ({ set, key }) => {
      // The kernel finds one without a key for every other key: a check of the rules deletes it.
      if (key.length === 0) return;
      const list = set === SHARED_ENDPOINTS ? lists.get(listOfKey(key)) : undefined;
      others.push({ set, key: key.slice(), ...(list && { list }) });
    });
    this.leftovers.add({ endpoints: others, shared: [] });
    this.#order.clear();
    this.#checkOrder(services);
    return new Map(services);
  }

  /** Returns the virtual servers that have a list, or to whose list others lead, by the first part of its keys. */
  async #readLenders(heads: readonly Head[]): Promise<ReadonlyMap<string, VirtualServerId>> {
    const lists = Array.from((await readLists(this.port, this.family)).values(), ({ id }) => id);
    const ids = [...lists, ...heads.flatMap(({ chain }) => readListChain(chain, this.family) ?? [])];
    return new Map(ids.map((id) => [listOfKey(sharedKey(listNumbers(id), 0)), id]));
  }

  #recall(heads: readonly Head[], expected: ExpectedServers | undefined): ReadonlyMap<VirtualServerKey, RecalledList> {
    const found = new Map<VirtualServerKey, RecalledList>();
    for (const { id, count } of heads) {
      const key = virtualServerKey(id);
      const endpoints = expected?.get(key);
      const list = endpoints === undefined ? undefined : this.#order.recall(key, count, endpoints);
      if (list !== undefined) found.set(key, list);
    }
    return found;
  }

  /** Remembers lists that were read. Returns false if what was read of a recalled one contradicts what is remembered. */
  #checkOrder(services: Services): boolean {
    let isRight = true;
    for (const [key, { state, damaged, recalled }] of services) {
      if (!recalled && !damaged) this.#order.remember(key, state.endpoints);
      else if (damaged || !this.#order.matches(key, state.endpoints)) {
        this.#order.forget(key);
        isRight &&= !recalled;
      }
    }
    return isRight;
  }

  #advance(generation: number, messages: readonly NftMessage[], changed: readonly VirtualServerId[]): void {
    for (const message of messages) {
      if (message.kind === 'new-chain' && this.#chains.has(message.chain.name))
        this.#chains.set(message.chain.name, true);
      else if (message.kind === 'delete-chain') this.#chains.delete(message.name);
    }
    for (const id of changed) {
      const key = virtualServerKey(id);
      this.#heads.delete(key);
      this.#services.delete(key);
      this.#traits.delete(key);
    }
    this.#listed = undefined;
    this.#generation = nextOf(generation);
  }

  #count(messages: readonly NftMessage[]): void {
    for (const message of messages) {
      if (message.kind !== 'new-elements' && message.kind !== 'delete-elements') continue;
      const more = message.kind === 'new-elements' ? message.elements.size : -message.elements.size;
      if (HEADS.includes(message.set)) this.#size += more;
    }
  }

  #see(generation: number): void {
    if (generation === this.#generation) return;
    this.forget();
    this.#generation = generation;
  }

  #knownHeads(ids: readonly VirtualServerId[]): readonly Head[] | undefined {
    if (!ids.every((id) => this.#heads.has(virtualServerKey(id)))) return undefined;
    return ids.flatMap((id) => this.#heads.get(virtualServerKey(id)) ?? []);
  }

  async #afterGeneration<T>(
    read: (port: NftPort, family: IpFamily) => Promise<T>,
  ): Promise<{ readonly generation: number; readonly found: T }> {
    const { generation } = await this.port.lookUp(this.family, {});
    return { generation, found: await read(this.port, this.family) };
  }
}

/** Whether so many objects are read faster with all that the table has. */
function isLargePart(count: number, all: number): boolean {
  return count >= MANY && count >= all * LARGE_PART;
}

/** A transaction adds 1 to the generation, which is never 0 (net/netfilter/nf_tables_api.c: nf_tables_commit). */
export function nextOf(generation: number): number {
  return (generation + 1) >>> 0 || 1;
}
