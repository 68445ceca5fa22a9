import { NOTHING } from '../net/exact.ts';
import type { IpAddress, IpFamily } from '../net/ip.ts';
import type { NamespacedName } from '../net/names.ts';
import type { IpSetEntry } from '../state/ip-set.ts';
import {
  type VirtualServerId,
  type VirtualServerKey,
  formatVirtualServer,
  virtualServerKey,
} from '../state/virtual-server.ts';
import { PlannedSet, type PlannedSetEntries } from './planned-set.ts';
import type {
  PlannedEntry,
  PlannedHealthCheck,
  PlannedUdp,
  PlannedVirtualServer,
  ServicePlan,
} from './service-plan.ts';
import { samePlanned } from './share-plan.ts';
import { SET_ROLES, type SetRole } from './set-names.ts';

/** What must be true of one virtual server now: there as wanted, or gone. */
export interface VirtualServerChange {
  readonly id: VirtualServerId;
  readonly want: PlannedVirtualServer | undefined;
  /** What was wanted of it before; undefined: it was not, or nobody knows whether that is in force. */
  readonly before: PlannedVirtualServer | undefined;
}

export interface AddressChange {
  readonly address: IpAddress;
  readonly wanted: boolean;
}

export interface EntryChange extends PlannedEntry {
  readonly wanted: boolean;
}

/** The net change since the last time it was asked for; what came and went in between is not in it. */
export interface PlanChanges {
  readonly virtualServers: readonly VirtualServerChange[];
  readonly addresses: readonly AddressChange[];
  readonly entries: readonly EntryChange[];
}

/** Two services that demand the same virtual server: the first by name has it. */
export interface Conflict {
  readonly service: NamespacedName;
  readonly owner: NamespacedName;
  readonly virtualServer: string;
}

interface Claim {
  readonly service: NamespacedName;
  readonly planned: PlannedVirtualServer;
}

/** A role of one family as one Map key. */
export type SetKey = `${SetRole}/${IpFamily}`;

export function setKey(role: SetRole, family: IpFamily): SetKey {
  return (family === 4 ? SET_KEYS_4 : SET_KEYS_6)[role];
}

// Text that is put together anew each time would have to be hashed each time.
const SET_KEYS_4 = setKeys(4);
const SET_KEYS_6 = setKeys(6);

function setKeys(family: IpFamily): Readonly<Record<SetRole, SetKey>> {
  return Object.fromEntries(SET_ROLES.map((role) => [role, `${role}/${family}`])) as Record<SetRole, SetKey>;
}

/**
 * All services' plans, merged: what this node's kernel must hold. Several services may demand one address, one set entry or
 * (by mistake) one virtual server; references are counted, so that the last one to leave takes it away. Memory is one
 * reference per demanded object: the objects themselves are the plans'.
 */
export class NodePlan {
  readonly #services = new Map<NamespacedName, ServicePlan>();
  /** Who has each virtual server: of all that claim it the first by name. */
  readonly #virtualServers = new Map<VirtualServerKey, Claim>();
  /** Those that claim a virtual server and do not get it, ordered by service name; almost always nobody. */
  readonly #losers = new Map<VirtualServerKey, readonly Claim[]>();
  readonly #addresses = new Map<IpAddress, number>();
  readonly #sets = new Map<SetKey, PlannedSet>();
  readonly #healthChecks = new Map<NamespacedName, PlannedHealthCheck>();

  // What was so when changes were last taken, for everything touched since then.
  readonly #touchedVirtualServers = new Map<
    VirtualServerKey,
    { readonly id: VirtualServerId; readonly before: PlannedVirtualServer | undefined | 'unknown' }
  >();
  readonly #touchedAddresses = new Map<IpAddress, boolean | 'unknown'>();
  #recording = true;

  /** Puts a service's new plan in the place of its old one; undefined: the service is gone. */
  replace(service: NamespacedName, plan: ServicePlan | undefined): void {
    const old = this.#services.get(service);
    if (plan === undefined) this.#services.delete(service);
    else this.#services.set(service, plan);
    if (plan?.healthCheck === undefined) this.#healthChecks.delete(service);
    else this.#healthChecks.set(service, plan.healthCheck);
    // New demands are counted before old ones are dropped: what both want never reaches zero. What the plans share is not counted at all.
    if (plan !== undefined) this.#demand(service, plan, old);
    if (old !== undefined) this.#drop(service, old, plan);
  }

  #demand(service: NamespacedName, plan: ServicePlan, old: ServicePlan | undefined): void {
    plan.virtualServers.forEach((planned, at) => {
      if (planned !== old?.virtualServers[at]) this.#claim(service, planned);
    });
    if (plan.addresses !== old?.addresses) for (const address of plan.addresses) this.#countAddress(address, 1);
    if (plan.entries === old?.entries) return;
    for (const entry of plan.entries) this.#set(entry).add(entry, this.#recording);
  }

  #drop(service: NamespacedName, old: ServicePlan, plan: ServicePlan | undefined): void {
    for (const id of goneIds(old.virtualServers, plan?.virtualServers ?? NOTHING)) this.#unclaim(service, id);
    if (old.addresses !== plan?.addresses) for (const address of old.addresses) this.#countAddress(address, -1);
    if (old.entries === plan?.entries) return;
    for (const entry of old.entries) this.#set(entry).remove(entry, this.#recording);
  }

  service(name: NamespacedName): ServicePlan | undefined {
    return this.#services.get(name);
  }

  services(): IterableIterator<ServicePlan> {
    return this.#services.values();
  }

  /** What the services' health check listeners must answer. */
  get healthChecks(): ReadonlyMap<NamespacedName, PlannedHealthCheck> {
    return this.#healthChecks;
  }

  get virtualServerCount(): number {
    return this.#virtualServers.size;
  }

  get addressCount(): number {
    return this.#addresses.size;
  }

  /** Every virtual server that must be there. */
  *virtualServers(): IterableIterator<PlannedVirtualServer> {
    for (const { planned } of this.#virtualServers.values()) yield planned;
  }

  virtualServer(key: VirtualServerKey): PlannedVirtualServer | undefined {
    return this.#virtualServers.get(key)?.planned;
  }

  /** Who may still answer for a virtual server of UDP; nobody where it has no endpoints, or is not ours. */
  answeringAt(key: VirtualServerKey): PlannedUdp['answering'] {
    const owner = this.#virtualServers.get(key)?.service;
    const udp = owner === undefined ? undefined : this.#services.get(owner)?.udp;
    return udp?.find(({ id }) => virtualServerKey(id) === key)?.answering ?? NOTHING;
  }

  wantsAddress(address: IpAddress): boolean {
    return this.#addresses.has(address);
  }

  addresses(): IterableIterator<IpAddress> {
    return this.#addresses.keys();
  }

  entries(role: SetRole, family: IpFamily): PlannedSetEntries {
    return this.#sets.get(setKey(role, family))?.entries ?? NO_ENTRIES;
  }

  /** Services that did not get a virtual server they demand. Costs what they are, however many others there are. */
  *conflicts(): IterableIterator<Conflict> {
    for (const [key, losers] of this.#losers) {
      const owner = this.#virtualServers.get(key);
      if (owner === undefined) continue;
      for (const { service, planned } of losers) {
        yield { service, owner: owner.service, virtualServer: formatVirtualServer(planned.virtualServer) };
      }
    }
  }

  /** Has the next takeChanges() name the virtual server whatever the plan says: its last operation failed, or it drains. */
  touchVirtualServer(id: VirtualServerId): void {
    this.#touchedVirtualServers.set(virtualServerKey(id), { id, before: 'unknown' });
  }

  touchAddress(address: IpAddress): void {
    this.#touchedAddresses.set(address, 'unknown');
  }

  /** The net change since the last call. */
  takeChanges(): PlanChanges {
    const virtualServers: VirtualServerChange[] = [];
    for (const [key, { id, before }] of this.#touchedVirtualServers) {
      const want = this.virtualServer(key);
      if (before === 'unknown') virtualServers.push({ id, want, before: undefined });
      else if (!sameDemand(before, want)) virtualServers.push({ id, want, before });
    }
    const addresses: AddressChange[] = [];
    for (const [address, before] of this.#touchedAddresses) {
      const wanted = this.#addresses.has(address);
      if (before !== wanted) addresses.push({ address, wanted });
    }
    const entries: EntryChange[] = [];
    for (const set of this.#sets.values()) for (const change of set.takeChanges()) entries.push(change);
    this.forgetChanges();
    return { virtualServers, addresses, entries };
  }

  /** Remembers no changes until they are next asked for: for whoever looks at everything anyway, as a first sync does. */
  ignoreChanges(): void {
    this.forgetChanges();
    this.#recording = false;
  }

  /** As takeChanges(), but costs nothing, however much has changed. */
  forgetChanges(): void {
    this.#recording = true;
    this.#touchedVirtualServers.clear();
    this.#touchedAddresses.clear();
    for (const set of this.#sets.values()) set.forgetChanges();
  }

  #claim(service: NamespacedName, planned: PlannedVirtualServer): void {
    const key = virtualServerKey(planned.virtualServer);
    this.#rememberVirtualServer(key, planned.virtualServer);
    const claim = { service, planned };
    const owner = this.#virtualServers.get(key);
    if (owner === undefined || owner.service === service) this.#virtualServers.set(key, claim);
    else this.#settle(key, [...this.#claimsOfOthers(key, service), claim]);
  }

  #unclaim(service: NamespacedName, id: VirtualServerId): void {
    const key = virtualServerKey(id);
    this.#rememberVirtualServer(key, id);
    this.#settle(key, this.#claimsOfOthers(key, service));
  }

  #claimsOfOthers(key: VirtualServerKey, service: NamespacedName): Claim[] {
    const owner = this.#virtualServers.get(key);
    const all = owner === undefined ? [] : [owner, ...(this.#losers.get(key) ?? [])];
    return all.filter((claim) => claim.service !== service);
  }

  #settle(key: VirtualServerKey, claims: readonly Claim[]): void {
    const [owner, ...losers] = claims.toSorted((a, b) => (a.service < b.service ? -1 : 1));
    if (owner === undefined) this.#virtualServers.delete(key);
    else this.#virtualServers.set(key, owner);
    if (losers.length === 0) this.#losers.delete(key);
    else this.#losers.set(key, losers);
  }

  #rememberVirtualServer(key: VirtualServerKey, { address, port, protocol }: VirtualServerId): void {
    if (!this.#recording || this.#touchedVirtualServers.has(key)) return;
    this.#touchedVirtualServers.set(key, { id: { address, port, protocol }, before: this.virtualServer(key) });
  }

  #countAddress(address: IpAddress, difference: 1 | -1): void {
    const before = this.#addresses.get(address) ?? 0;
    if (this.#recording && !this.#touchedAddresses.has(address)) this.#touchedAddresses.set(address, before > 0);
    if (before + difference > 0) this.#addresses.set(address, before + difference);
    else this.#addresses.delete(address);
  }

  #set({ role, family }: PlannedEntry): PlannedSet {
    const key = setKey(role, family);
    let set = this.#sets.get(key);
    if (set === undefined) this.#sets.set(key, (set = new PlannedSet()));
    return set;
  }
}

const NO_ENTRIES: PlannedSetEntries = new Map();

function sameDemand(a: PlannedVirtualServer | undefined, b: PlannedVirtualServer | undefined): boolean {
  return a === undefined || b === undefined ? a === b : samePlanned(a, b);
}

/** Virtual servers that are not there afterwards. */
function goneIds(
  before: readonly PlannedVirtualServer[],
  after: readonly PlannedVirtualServer[],
): readonly VirtualServerId[] {
  const key = ({ virtualServer }: PlannedVirtualServer): VirtualServerKey => virtualServerKey(virtualServer);
  const inPlace = (planned: PlannedVirtualServer, at: number): boolean => {
    const other = after[at];
    return other !== undefined && key(other) === key(planned);
  };
  if (before.every(inPlace)) return NOTHING;
  const kept = new Set(after.map(key));
  return before.filter((planned) => !kept.has(key(planned))).map(({ virtualServer }) => virtualServer);
}

/** The entries alone, for operations that carry them. */
export function plannedEntries(entries: PlannedSetEntries): IpSetEntry[] {
  return Array.from(entries.values(), ({ entry }) => entry);
}
