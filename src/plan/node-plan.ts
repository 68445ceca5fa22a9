import type { IpAddress, IpFamily } from '../net/ip.ts';
import type { NamespacedName } from '../net/names.ts';
import { type IpSetEntry, formatIpSetEntry } from '../state/ip-set.ts';
import { type RealServer, realServerKey } from '../state/real-server.ts';
import {
  type VirtualServerId,
  type VirtualServerKey,
  formatVirtualServer,
  sameVirtualServer,
  virtualServerKey,
} from '../state/virtual-server.ts';
import type { PlannedEntry, PlannedHealthCheck, PlannedVirtualServer, ServicePlan } from './service-plan.ts';
import type { SetRole } from './set-names.ts';

/** What must be true of one virtual server now: there as wanted, or gone. */
export interface VirtualServerChange {
  readonly id: VirtualServerId;
  readonly want: PlannedVirtualServer | undefined;
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

/** Entries of one set, by their text form. */
export type PlannedSetEntries = ReadonlyMap<string, CountedEntry>;

interface CountedEntry {
  readonly entry: PlannedEntry;
  count: number;
}

interface Claim {
  readonly service: NamespacedName;
  readonly planned: PlannedVirtualServer;
}

interface TouchedEntry {
  readonly entry: PlannedEntry;
  readonly text: string;
  readonly before: boolean | 'unknown';
}

/** A role of one family as one Map key. */
export type SetKey = `${SetRole}/${IpFamily}`;

export function setKey(role: SetRole, family: IpFamily): SetKey {
  return `${role}/${family}`;
}

/**
 * All services' plans, merged: what this node's kernel must hold. Several services may demand one address, one set entry or
 * (by mistake) one virtual server; references are counted, so that the last one to leave takes it away. Memory is one
 * reference per demanded object: the objects themselves are the plans'.
 */
export class NodePlan {
  readonly #services = new Map<NamespacedName, ServicePlan>();
  /** Claims on each virtual server, ordered by service name; almost always exactly one. */
  readonly #virtualServers = new Map<VirtualServerKey, readonly Claim[]>();
  readonly #addresses = new Map<IpAddress, number>();
  readonly #entries = new Map<SetKey, Map<string, CountedEntry>>();

  readonly #healthChecks = new Map<NamespacedName, PlannedHealthCheck>();

  // What was so when changes were last taken, for everything touched since then.
  readonly #touchedVirtualServers = new Map<
    VirtualServerKey,
    { readonly id: VirtualServerId; readonly before: PlannedVirtualServer | undefined | 'unknown' }
  >();
  readonly #touchedAddresses = new Map<IpAddress, boolean | 'unknown'>();
  #recording = true;
  readonly #touchedEntries = new Map<string, TouchedEntry>();

  /** Puts a service's new plan in the place of its old one; undefined: the service is gone. */
  replace(service: NamespacedName, plan: ServicePlan | undefined): void {
    const old = this.#services.get(service);
    if (plan === undefined) this.#services.delete(service);
    else this.#services.set(service, plan);
    if (plan?.healthCheck === undefined) this.#healthChecks.delete(service);
    else this.#healthChecks.set(service, plan.healthCheck);
    // New demands are counted before old ones are dropped: what both want never reaches zero.
    for (const planned of plan?.virtualServers ?? []) this.#claim(service, planned);
    for (const address of plan?.addresses ?? []) this.#countAddress(address, 1);
    for (const entry of plan?.entries ?? []) this.#countEntry(entry, 1);
    if (old === undefined) return;
    const kept = new Set(plan?.virtualServers.map((planned) => virtualServerKey(planned.virtualServer)));
    for (const { virtualServer } of old.virtualServers) {
      if (!kept.has(virtualServerKey(virtualServer))) this.#unclaim(service, virtualServer);
    }
    for (const address of old.addresses) this.#countAddress(address, -1);
    for (const entry of old.entries) this.#countEntry(entry, -1);
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
    for (const [claim] of this.#virtualServers.values()) if (claim !== undefined) yield claim.planned;
  }

  virtualServer(key: VirtualServerKey): PlannedVirtualServer | undefined {
    return this.#virtualServers.get(key)?.[0]?.planned;
  }

  wantsAddress(address: IpAddress): boolean {
    return this.#addresses.has(address);
  }

  addresses(): IterableIterator<IpAddress> {
    return this.#addresses.keys();
  }

  entries(role: SetRole, family: IpFamily): PlannedSetEntries {
    return this.#entries.get(setKey(role, family)) ?? NO_ENTRIES;
  }

  /** Services that did not get a virtual server they demand. */
  *conflicts(): IterableIterator<Conflict> {
    for (const [owner, ...others] of this.#virtualServers.values()) {
      for (const { service, planned } of others) {
        if (owner === undefined) continue;
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

  touchEntry(entry: PlannedEntry): void {
    const text = formatIpSetEntry(entry.entry);
    this.#touchedEntries.set(`${setKey(entry.role, entry.family)} ${text}`, { entry, text, before: 'unknown' });
  }

  /** The net change since the last call. */
  takeChanges(): PlanChanges {
    const virtualServers: VirtualServerChange[] = [];
    for (const [key, { id, before }] of this.#touchedVirtualServers) {
      const want = this.virtualServer(key);
      if (before === 'unknown' || !samePlanned(before, want)) virtualServers.push({ id, want });
    }
    const addresses: AddressChange[] = [];
    for (const [address, before] of this.#touchedAddresses) {
      const wanted = this.#addresses.has(address);
      if (before !== wanted) addresses.push({ address, wanted });
    }
    const entries: EntryChange[] = [];
    for (const { entry, text, before } of this.#touchedEntries.values()) {
      const wanted = this.entries(entry.role, entry.family).has(text);
      if (before !== wanted) entries.push({ ...entry, wanted });
    }
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
    this.#touchedEntries.clear();
  }

  #claim(service: NamespacedName, planned: PlannedVirtualServer): void {
    const key = virtualServerKey(planned.virtualServer);
    this.#rememberVirtualServer(key, planned.virtualServer);
    const claims = this.#virtualServers.get(key) ?? [];
    const others = claims.filter((claim) => claim.service !== service);
    const all = [...others, { service, planned }];
    if (all.length > 1) all.sort((a, b) => (a.service < b.service ? -1 : 1));
    this.#virtualServers.set(key, all);
  }

  #unclaim(service: NamespacedName, id: VirtualServerId): void {
    const key = virtualServerKey(id);
    this.#rememberVirtualServer(key, id);
    const rest = (this.#virtualServers.get(key) ?? []).filter((claim) => claim.service !== service);
    if (rest.length === 0) this.#virtualServers.delete(key);
    else this.#virtualServers.set(key, rest);
  }

  #rememberVirtualServer(key: VirtualServerKey, { address, port, protocol }: VirtualServerId): void {
    if (!this.#recording || this.#touchedVirtualServers.has(key)) return;
    this.#touchedVirtualServers.set(key, { id: { address, port, protocol }, before: this.virtualServer(key) });
  }

  #rememberEntry(key: string, touched: TouchedEntry): void {
    if (!this.#touchedEntries.has(key)) this.#touchedEntries.set(key, touched);
  }

  #countAddress(address: IpAddress, difference: 1 | -1): void {
    const before = this.#addresses.get(address) ?? 0;
    if (this.#recording && !this.#touchedAddresses.has(address)) this.#touchedAddresses.set(address, before > 0);
    if (before + difference > 0) this.#addresses.set(address, before + difference);
    else this.#addresses.delete(address);
  }

  #countEntry(planned: PlannedEntry, difference: 1 | -1): void {
    const of = setKey(planned.role, planned.family);
    let set = this.#entries.get(of);
    if (set === undefined) this.#entries.set(of, (set = new Map()));
    const text = formatIpSetEntry(planned.entry);
    const counted = set.get(text);
    if (this.#recording) this.#rememberEntry(`${of} ${text}`, { entry: planned, text, before: counted !== undefined });
    if (counted === undefined) set.set(text, { entry: planned, count: difference });
    else if ((counted.count += difference) <= 0) set.delete(text);
  }
}

const NO_ENTRIES: PlannedSetEntries = new Map();

function samePlanned(a: PlannedVirtualServer | undefined, b: PlannedVirtualServer | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a === b) return true;
  return sameVirtualServer(a.virtualServer, b.virtualServer) && sameRealServers(a.realServers, b.realServers);
}

// Plans are sorted, so equal ones are equal place by place.
function sameRealServers(a: readonly RealServer[], b: readonly RealServer[]): boolean {
  return (
    a.length === b.length &&
    a.every((server, i) => {
      const other = b[i];
      return other !== undefined && server.weight === other.weight && realServerKey(server) === realServerKey(other);
    })
  );
}

/** The entries alone, for operations that carry them. */
export function plannedEntries(entries: PlannedSetEntries): IpSetEntry[] {
  return Array.from(entries.values(), ({ entry }) => entry.entry);
}
