import { constants } from 'node:os';
import type { IpFamily } from '../../base/ip.ts';
import { Yielder } from '../../base/yielder.ts';
import { nftTable } from '../../state/nft-table.ts';
import type { Op } from '../../state/op.ts';
import { type OpFailure, type Outcome, failureOf, reasonOf } from '../../state/outcome.ts';
import type { Endpoint } from '../../state/real-server.ts';
import type { Transaction } from '../../state/transaction.ts';
import { type VirtualServerId, type VirtualServerKey, borrows, virtualServerKey } from '../../state/virtual-server.ts';
import { bisect } from '../bisect.ts';
import { readRanges } from './objects/firewall-objects.ts';
import { TABLE_OWNED } from '../kernel-error.ts';
import type { ExpectedServers } from '../kernel.ts';
import { MOST_ELEMENTS, type NftMessage } from './port/nft-message.ts';
import type { ElementOf, NftRefusal } from './port/nft-port.ts';
import { type ServiceParts, type SharedChains, hasOwnList, serviceParts } from './objects/service-objects.ts';
import { type AppliedOps, type ServiceState, applyServiceOps } from '../service-ops.ts';
import { ENDPOINTS, LISTS, SHARED_ENDPOINTS } from './objects/sets.ts';
import { type ListTargets, chainOf, findLists, listChainName } from './objects/shared-list.ts';
import { TableChange, elementId, sameData } from './table-change.ts';
import { type ObservedService, type Services, readOwnElements } from './table-reader.ts';
import { type TableView, nextOf } from './table-view.ts';
import { type FoundTraits, foundObjects, traitObjects } from './objects/trait-elements.ts';
import type { TraitsByServer } from './trait-reader.ts';
import { type EntryUnit, type ServiceUnit, type Unit, partsOf, unitsOf } from './units.ts';

/** Attempts to write while other programs change the ruleset. The last one does not require an unchanged ruleset. */
const ATTEMPTS = 5;

/** The kernel refuses these for every transaction alike. */
const OF_ALL: ReadonlySet<string> = new Set([TABLE_OWNED, 'EPERM', 'EOPNOTSUPP', 'TIMEOUT', 'CLOSED']);
/** Another program changed the ruleset meanwhile. */
const CHANGED_MEANWHILE: ReadonlySet<string> = new Set(['ERESTART', 'EBUSY', 'EAGAIN', 'EINTR']);

/**
 * Applies operations to our tables. What an operation changes depends on the state of its object only, which the view
 * reads from the kernel.
 */
export class NftTables {
  readonly #viewOf: (family: IpFamily) => TableView;
  readonly #most: number;

  /** @param most how many elements a transaction may have */
  constructor(viewOf: (family: IpFamily) => TableView, most = MOST_ELEMENTS) {
    this.#viewOf = viewOf;
    this.#most = most;
  }

  /**
   * Applies the operations of each family in one transaction; in several if it were too large, and in as many as needed if
   * the kernel refuses it.
   */
  async apply(tx: Transaction): Promise<Outcome> {
    const failures: OpFailure[] = [];
    let stopped: string | undefined;
    for await (const { family, units: all, failures: impossible } of unitsOf(tx)) {
      for (const failure of impossible) failures.push(failure);
      const view = this.#viewOf(family);
      // An endpoint that is new may need the place of one that was left.
      if (all.length > 0) await view.leftovers.remove(view);
      const { refused, stoppedBy } = await bisect(
        partsOf(all, ({ id }) => view.countOf(id), this.#most),
        {
          write: (units) => this.#write(view, units, failures),
          isOfAll: (refusal) => isOfAll(view, refusal),
          inOrder: true,
        },
      );
      for (const { units, refusal } of refused) {
        for (const op of units.flatMap(({ ops }): readonly Op[] => ops)) failures.push(failureOf(op, refusal));
      }
      if (stoppedBy !== undefined) stopped ??= whyStopped(family, stoppedBy);
    }
    return { failures, ...(stopped !== undefined && { stopped }) };
  }

  /** A virtual server that is refused alone is written whole, whatever the table has of it. */
  async #write(view: TableView, units: readonly Unit[], failures: OpFailure[]): Promise<NftRefusal | undefined> {
    const attempt = new Attempt(view, units, this.#most);
    let refusal = await attempt.run();
    const [unit, ...others] = units;
    if (refusal !== undefined && others.length === 0 && !(await isOfAll(view, refusal))) {
      refusal = await new Attempt(view, units, this.#most, unit?.kind === 'service').run();
    }
    if (refusal === undefined) for (const failure of attempt.failures) failures.push(failure);
    return refusal;
  }
}

/** Whether every other transaction would be refused, too. */
async function isOfAll({ port, family }: TableView, { code }: NftRefusal): Promise<boolean> {
  return OF_ALL.has(code) || (code === 'ENOENT' && !(await port.hasTable(family)));
}

function whyStopped(family: IpFamily, refusal: NftRefusal): string {
  const reason = refusal.code === 'ENOENT' ? 'another program deleted it' : reasonOf(refusal);
  return `cannot write table ${nftTable(family)}: ${reason}`;
}

/** What a transaction reads before it writes. */
interface Found {
  /** Before the reads; undefined if nothing that is to be written depends on them. */
  readonly generation: number | undefined;
  readonly services: Services;
  /** Of the virtual servers whose settings are written. */
  readonly traits: TraitsByServer;
  /** The entries to delete that exist, by the ids of their elements. */
  readonly deleted: ReadonlyMap<string, EntryUnit['element']>;
}

/** The units must be written in several transactions. */
const TOO_LARGE: NftRefusal = { errno: 0, code: 'TOO_LARGE', text: 'too many elements for one transaction' };

/** What becomes of a virtual server. */
interface ServiceChange extends AppliedOps {
  readonly unit: ServiceUnit;
  readonly before: ObservedService | undefined;
}

function partsBefore(id: VirtualServerId, before: ObservedService, after: ServiceState | undefined): ServiceParts {
  return serviceParts(id, before.state, { first: before.chain, target: before.target, other: after });
}

function partsOfElements(id: VirtualServerId, elements: readonly ElementOf[]): ServiceParts {
  const isOfList = ({ set }: ElementOf): boolean => set === LISTS || set === SHARED_ENDPOINTS;
  return {
    service: { elements: elements.filter((element) => !isOfList(element)) },
    list: { elements: elements.filter(isOfList), list: id },
  };
}

const WITHOUT_LIST: NftRefusal = {
  errno: constants.errno.ENOENT,
  code: 'ENOENT',
  text: 'the list of endpoints that it shares does not exist',
};

/** Reads, computes and writes the change of some units; again, if the ruleset changed meanwhile. */
class Attempt {
  readonly #view: TableView;
  readonly #units: readonly Unit[];
  readonly #most: number;
  readonly #whole: boolean;
  failures: OpFailure[] = [];
  /** The virtual servers that there will be, with their endpoints. */
  #after = new Map<VirtualServerId, readonly Endpoint[]>();
  /** The chains whose source ranges are written again. */
  readonly #restored = new Set<string>();
  /** Endpoints that are replaced as they are remembered. */
  #recalled: ElementOf[] = [];

  constructor(view: TableView, units: readonly Unit[], most: number, whole = false) {
    this.#view = view;
    this.#units = units;
    this.#most = most;
    this.#whole = whole;
  }

  async run(): Promise<NftRefusal | undefined> {
    let expected: ExpectedServers | undefined;
    for (let attempt = 1; ; attempt++) {
      if (attempt > 1) this.#view.forget();
      // What is recalled is looked up before the transaction, so the last attempt cannot rely on it.
      const found = await this.#read(attempt === ATTEMPTS ? undefined : expected);
      expected = new Map(Array.from(found.services, ([key, { state }]) => [key, state.endpoints]));
      const change = await this.#changeOf(found);
      if (change.size > this.#most && this.#units.length > 1) return TOO_LARGE;
      const transactions = change.transactions(await this.#view.findChains(change.shared), this.#most);
      // A transaction would be refused if what was read is no longer true. So nothing is written only if it still is.
      if (transactions.length === 0) {
        if (attempt === ATTEMPTS || (await this.#view.stillHas(found.generation))) return undefined;
        continue;
      }
      if (!(await this.#isAsRecalled(found.generation))) continue;
      const refusal = await this.#commit(transactions, attempt < ATTEMPTS ? found.generation : undefined);
      if (refusal === undefined) {
        this.#view.leftovers.add(change.leftovers);
        for (const [id, endpoints] of this.#after) this.#view.remember(id, endpoints);
      }
      if (refusal === undefined || attempt === ATTEMPTS || !CHANGED_MEANWHILE.has(refusal.code)) return refusal;
    }
  }

  /** Whether the table has, in the same generation, the endpoints that are replaced. */
  async #isAsRecalled(expected: number | undefined): Promise<boolean> {
    if (this.#recalled.length === 0) return true;
    const { generation, elements } = await this.#view.port.lookUp(this.#view.family, { elements: this.#recalled });
    const found = new Map(elements.map((element) => [elementId(element), element]));
    const isRight = this.#recalled.every((element) => {
      const current = found.get(elementId(element));
      return current !== undefined && sameData(current, element);
    });
    if (!isRight) this.#view.forgetOrder(this.#serviceIds);
    return isRight && generation === expected;
  }

  async #commit(
    transactions: readonly (readonly NftMessage[])[],
    generation: number | undefined,
  ): Promise<NftRefusal | undefined> {
    let current = generation;
    const ids = this.#serviceIds;
    for (const messages of transactions) {
      const refusal = await this.#view.commit(messages, current, ids);
      if (refusal !== undefined) return refusal;
      if (current !== undefined) current = nextOf(current);
    }
    return undefined;
  }

  get #serviceIds(): readonly VirtualServerId[] {
    return this.#services.map(({ id }) => id);
  }

  get #services(): readonly ServiceUnit[] {
    return this.#units.filter((unit) => unit.kind === 'service');
  }

  get #entries(): readonly EntryUnit[] {
    return this.#units.filter((unit) => unit.kind === 'entry');
  }

  async #changeOf(found: Found): Promise<TableChange> {
    this.failures = [];
    this.#after = new Map();
    this.#recalled = [];
    this.#restored.clear();
    const change = new TableChange();
    const yielder = new Yielder();
    for (const { set, key } of found.deleted.values()) change.deleteElement(set, { key });
    for (const { element, ops } of this.#entries) {
      if (ops[0].kind === 'add-entry') change.addElement(element.set, element);
    }
    const all = await this.#allOf(found.services);
    const applied = this.#services.map((unit): ServiceChange => {
      const key = virtualServerKey(unit.id);
      const before = found.services.get(key);
      // One of which only the traits are left is listed, so it is edited. It has no endpoints yet.
      const state = before?.state ?? (found.traits.has(key) ? WITHOUT_ENDPOINTS : undefined);
      return { unit, before, ...applyServiceOps(state, unit.ops) };
    });
    const listless = await this.#findListless(applied);
    const targets = await this.#findTargets(applied);
    for (const each of applied) {
      if (listless.has(each)) for (const op of each.unit.ops) this.failures.push(failureOf(op, WITHOUT_LIST));
      else {
        const key = virtualServerKey(each.unit.id);
        this.#changeService(change, each, all.get(key), targets);
        await this.#changeTraits(change, each, found.traits.get(key));
      }
      if (yielder.due) await yielder.yieldIfDue();
    }
    return change;
  }

  /** Returns the changes after which virtual servers would have the list of one that has none. */
  async #findListless(changes: readonly ServiceChange[]): Promise<ReadonlySet<ServiceChange>> {
    const lending = new Map(changes.map(({ unit: { id }, after }) => [virtualServerKey(id), hasOwnList(id, after)]));
    const others = changes.flatMap((change) => {
      const { unit, before, after } = change;
      if (after?.list === undefined || !borrows(unit.id, after) || lending.get(virtualServerKey(after.list)) === true)
        return [];
      const chain = listChainName(after.list);
      return before?.chain === chain ? [] : [{ change, chain }];
    });
    if (others.length === 0) return new Set();
    const existing = await this.#view.findChains([...new Set(others.map(({ chain }) => chain))]);
    return new Set(others.flatMap(({ change, chain }) => (existing.has(chain) ? [] : [change])));
  }

  /** Returns the lists that the table has of virtual servers that are not there, but lend one afterwards. */
  async #findTargets(changes: readonly ServiceChange[]): Promise<ListTargets> {
    const { port, family } = this.#view;
    const ids = changes.flatMap(({ unit: { id }, before, after }) => {
      return before === undefined && hasOwnList(id, after) ? [id] : [];
    });
    const existing = await this.#view.findChains(ids.map(listChainName));
    return await findLists(
      port,
      family,
      ids.filter((id) => existing.has(listChainName(id))),
    );
  }

  /** `all`: the elements that it has, if they are to be written whole. `targets`: those of lists without a virtual server. */
  #changeService(
    change: TableChange,
    { unit: { id }, before, after, failures }: ServiceChange,
    all: readonly ElementOf[] | undefined,
    targets: ListTargets,
  ): void {
    for (const failure of failures) this.failures.push(failure);
    this.#after.set(id, after?.endpoints ?? []);
    const old = all === undefined ? before && partsBefore(id, before, after) : partsOfElements(id, all);
    const wanted = after && serviceParts(id, after, all === undefined ? { other: before?.state } : {});
    change.replace(old?.service, wanted?.service);
    change.replace(old?.list, wanted?.list);
    const [chain] = wanted?.list === undefined ? [] : (wanted.service.shared?.chains() ?? []);
    const [element] = old?.list?.elements.filter(({ set }) => set === LISTS) ?? [];
    const target = element === undefined ? targets.get(virtualServerKey(id))?.chain : chainOf(element.data);
    if (chain !== undefined && target !== wanted?.list?.shared?.name) change.rewrite(chain.chain);
    if (all !== undefined || before?.recalled !== true) return;
    for (const element of [...(old?.service.elements ?? []), ...(old?.list?.elements ?? [])]) {
      if (element.set === ENDPOINTS || element.set === SHARED_ENDPOINTS) this.#recalled.push(element);
    }
  }

  async #changeTraits(
    change: TableChange,
    { unit: { id }, after, settings }: ServiceChange,
    known: FoundTraits | undefined,
  ): Promise<void> {
    if (settings === undefined && after !== undefined) return;
    const wanted = settings && traitObjects(id, settings.traits);
    change.replace(known && foundObjects(known), wanted);
    if (wanted?.shared !== undefined && wanted.shared.name === known?.chain) {
      await this.#restoreRanges(change, wanted.shared);
    }
  }

  /** The kernel takes intervals whole: with one difference, all of the set are written again. */
  async #restoreRanges(change: TableChange, { name, chains }: SharedChains): Promise<void> {
    const { elements, networks } = await readRanges(this.#view.port, this.#view.family, name);
    if (networks !== undefined || this.#restored.has(name)) return;
    this.#restored.add(name);
    for (const element of elements) change.deleteElement(element.set, element);
    for (const element of chains().flatMap((each) => each.elements)) change.addElement(element.set, element);
  }

  async #read(expected: ExpectedServers | undefined): Promise<Found> {
    const view = this.#view;
    const ids = this.#serviceIds;
    const services =
      ids.length === 0 ? new Map() : (view.knownServices(ids) ?? (await view.findServices(ids, expected)));
    const ofServices = ids.length === 0 ? undefined : view.generation;
    const traits = await view.findTraits(
      this.#services.flatMap((unit) => (this.#hasTraits(unit, services) ? [unit.id] : [])),
    );
    const deletions = this.#entries.filter(({ ops: [op] }) => op.kind === 'delete-entry');
    if (deletions.length === 0) return { generation: ofServices, services, traits, deleted: new Map() };
    const { generation, elements } = await view.port.lookUp(view.family, {
      elements: deletions.map(({ element }) => element),
    });
    return {
      generation: ofServices ?? generation,
      services,
      traits,
      deleted: new Map(elements.map((element) => [elementId(element), element])),
    };
  }

  /** Whether the table may have traits that the operations change. */
  #hasTraits({ id, ops }: ServiceUnit, services: Services): boolean {
    if (ops.some(({ kind }) => kind === 'delete-virtual-server' || kind === 'edit-virtual-server')) return true;
    return ops.some((op) => 'virtualServer' in op) && (this.#whole || services.has(virtualServerKey(id)));
  }

  /** Returns all elements of the virtual servers that are damaged, or are to be written whole. */
  async #allOf(services: Services): Promise<ReadonlyMap<VirtualServerKey, readonly ElementOf[]>> {
    const { port, family } = this.#view;
    const ids = this.#serviceIds.filter((id) => this.#whole || services.get(virtualServerKey(id))?.damaged === true);
    return await readOwnElements(port, family, ids);
  }
}

const WITHOUT_ENDPOINTS: ServiceState = { affinity: 0, endpoints: [] };
