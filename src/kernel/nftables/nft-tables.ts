import { IP_FAMILIES, type IpFamily, familyOf } from '../../base/ip.ts';
import type { Op } from '../../state/op.ts';
import type { OpFailure } from '../../state/outcome.ts';
import type { Transaction } from '../../state/transaction.ts';
import { type VirtualServerId, virtualServerKey } from '../../state/virtual-server.ts';
import { firewallObjects } from './firewall-objects.ts';
import type { NftMessage } from './nft-message.ts';
import type { NftPort, NftRefusal } from './nft-port.ts';
import { serviceObjects, type ServiceObjects } from './service-objects.ts';
import { applyServiceOps } from '../service-ops.ts';
import { constantSets } from './sets.ts';
import { TableChange, bytesText } from './table-change.ts';
import { type Restricted, type Services, findServices, readOwnElements, readRestricted } from './table-reader.ts';
import { type EntryUnit, type FirewallUnit, type ServiceUnit, type Unit, unitsOf } from './units.ts';

/** Attempts to write while other programs change the ruleset. The last one does not require an unchanged ruleset. */
const ATTEMPTS = 5;

/** The kernel refuses these for every transaction alike. */
const OF_ALL: ReadonlySet<string> = new Set(['EPERM', 'EOPNOTSUPP', 'TIMEOUT', 'CLOSED']);
/** Another program changed the ruleset meanwhile. */
const CHANGED_MEANWHILE: ReadonlySet<string> = new Set(['ERESTART', 'EBUSY', 'EAGAIN', 'EINTR']);

/** Returns what creates an empty table. */
export function skeleton(family: IpFamily): NftMessage[] {
  return [{ kind: 'new-table' }, ...constantSets(family).map((set): NftMessage => ({ kind: 'new-set', set }))];
}

/**
 * Applies operations to our tables. What an operation changes depends on the state of its object only, which is read
 * from the kernel before: nothing is remembered.
 */
export class NftTables {
  readonly #port: NftPort;

  constructor(port: NftPort) {
    this.#port = port;
  }

  /** Applies the operations of each family in one transaction; if the kernel refuses it, in as many as needed. */
  async apply(tx: Transaction): Promise<OpFailure[]> {
    const failures: OpFailure[] = [];
    for (const family of IP_FAMILIES) {
      const { units, failures: impossible } = unitsOf(tx, family);
      failures.push(...impossible);
      for (const failure of await this.#write(family, units)) failures.push(failure);
    }
    return failures;
  }

  async #write(family: IpFamily, units: readonly Unit[]): Promise<readonly OpFailure[]> {
    if (units.length === 0) return [];
    const attempt = new Attempt(this.#port, family, units);
    const refusal = await attempt.run();
    if (refusal === undefined) return attempt.failures;
    if (units.length === 1 || OF_ALL.has(refusal.code)) {
      const again = OF_ALL.has(refusal.code) ? refusal : await this.#rewrite(family, units);
      return again === undefined ? attempt.failures : refusedOps(units, again);
    }
    // One of them is at fault: the others must not suffer.
    const half = Math.ceil(units.length / 2);
    return [...(await this.#write(family, units.slice(0, half))), ...(await this.#write(family, units.slice(half)))];
  }

  /** Writes a virtual server whole, whatever the table has of it. */
  async #rewrite(family: IpFamily, [unit]: readonly Unit[]): Promise<NftRefusal | undefined> {
    if (unit === undefined) return undefined;
    return await new Attempt(this.#port, family, [unit], unit.kind === 'service').run();
  }
}

function refusedOps(units: readonly Unit[], { errno, code, text }: NftRefusal): OpFailure[] {
  return units.flatMap(({ ops }) => (ops as readonly Op[]).map((op) => ({ op, errno, code, text })));
}

/** What a transaction reads before it writes. */
interface Found {
  readonly services: Services;
  readonly restricted: ReadonlyMap<unknown, Restricted>;
  /** The elements to delete that exist. */
  readonly present: ReadonlySet<string>;
}

/** Reads, computes and writes the change of some units; again, if the ruleset changed meanwhile. */
class Attempt {
  readonly #port: NftPort;
  readonly #family: IpFamily;
  readonly #units: readonly Unit[];
  readonly #whole: boolean;
  failures: OpFailure[] = [];

  constructor(port: NftPort, family: IpFamily, units: readonly Unit[], whole = false) {
    this.#port = port;
    this.#family = family;
    this.#units = units;
    this.#whole = whole;
  }

  async run(): Promise<NftRefusal | undefined> {
    for (let attempt = 1; ; attempt++) {
      const generation = attempt < ATTEMPTS ? await this.#port.generation() : undefined;
      const messages = await this.#messages();
      const refusal = await this.#port.commit(this.#family, messages, generation);
      if (refusal === undefined || attempt === ATTEMPTS || !CHANGED_MEANWHILE.has(refusal.code)) return refusal;
    }
  }

  async #messages(): Promise<NftMessage[]> {
    this.failures = [];
    const found = await this.#read();
    const change = new TableChange();
    for (const unit of this.#units) {
      if (unit.kind === 'service') await this.#addService(change, unit, found.services);
      else if (unit.kind === 'firewall') addFirewall(change, unit, found);
      else addEntry(change, unit, found.present);
    }
    return change.messages(await this.#port.findChains(this.#family, change.shared));
  }

  async #read(): Promise<Found> {
    const port = this.#port;
    const family = this.#family;
    const ids: VirtualServerId[] = [];
    const entries: EntryUnit[] = [];
    let firewalls = false;
    for (const unit of this.#units) {
      if (unit.kind === 'service') ids.push(unit.id);
      else if (unit.kind === 'entry') entries.push(unit);
      else entries.push(...unit.entries);
      firewalls ||= unit.kind === 'firewall';
    }
    const present = new Set<string>();
    for (const [set, units] of Map.groupBy(
      entries.filter((unit) => !unit.present),
      (unit) => unit.set,
    )) {
      const keys = units.map(({ key }) => key);
      for (const { key } of await port.findElements(family, set, keys)) present.add(`${set} ${bytesText(key)}`);
    }
    return {
      services: await findServices(port, family, ids),
      restricted: firewalls ? await readRestricted(port, family) : new Map(),
      present,
    };
  }

  async #addService(change: TableChange, { id, ops }: ServiceUnit, services: Services): Promise<void> {
    const found = services.get(virtualServerKey(id));
    const { after, failures } = applyServiceOps(found?.state, ops);
    this.failures.push(...failures);
    const wanted = after === undefined ? undefined : serviceObjects(id, after);
    if (found?.damaged === true || this.#whole) change.replace(await this.#allOf(id, wanted), wanted);
    else change.replace(found === undefined ? undefined : serviceObjects(id, found.state), wanted);
  }

  /** Returns all elements of a virtual server, and those of its wanted chains that exist, as if they were empty. */
  async #allOf(id: VirtualServerId, wanted: ServiceObjects | undefined): Promise<ServiceObjects> {
    const names = wanted?.chains.map(({ name }) => name) ?? [];
    const chains = await this.#port.findChains(this.#family, names);
    return {
      elements: await readOwnElements(this.#port, this.#family, id),
      shared: [],
      chains: Array.from(chains, (name) => ({ name, rules: [] })),
      sets: [],
    };
  }
}

function addEntry(change: TableChange, { set, key, present }: EntryUnit, found: Found['present']): void {
  if (present) change.addElement(set, { key });
  else if (found.has(`${set} ${bytesText(key)}`)) change.deleteElement(set, key);
}

function addFirewall(change: TableChange, { id, entries }: FirewallUnit, { restricted, present }: Found): void {
  for (const entry of entries) addEntry(change, entry, present);
  const before = restricted.get(virtualServerKey(id));
  const ranges = new Map((before?.ranges ?? []).map((range) => [`${range.address}/${range.prefix}`, range]));
  let inForce = before?.inForce === true;
  const wasInForce = inForce;
  for (const { entry, present: wanted } of entries) {
    if (entry.type === 'hash:ip,port') inForce = wanted;
    if (entry.type !== 'hash:ip,port,net') continue;
    const text = `${entry.network.address}/${entry.network.prefix}`;
    if (wanted) ranges.set(text, entry.network);
    else ranges.delete(text);
  }
  change.replace(
    wasInForce ? firewallObjects(id, before?.ranges ?? []) : undefined,
    inForce ? firewallObjects(id, [...ranges.values()]) : undefined,
  );
}

/** Divides ids by family. */
export function byFamily(ids: readonly VirtualServerId[]): ReadonlyMap<IpFamily, VirtualServerId[]> {
  return Map.groupBy(ids, ({ address }) => familyOf(address));
}
