import { EMPTY } from '../../base/trim-capacity.ts';
import { IP_FAMILIES, type IpAddress, type IpFamily } from '../../base/ip.ts';
import type { NamespacedName } from '../../base/service/names.ts';
import type { IpSetEntry } from '../../state/ip-set.ts';
import type { DirectPod } from '../../state/pod-network.ts';
import {
  type VirtualServerId,
  type VirtualServerKey,
  borrows,
  hasSameSettings,
  virtualServerKey,
  virtualServerId,
} from '../../state/virtual-server.ts';
import { PlannedSet, type PlannedSetEntries } from '../ipvs/planned-set.ts';
import type {
  PlannedEntry,
  PlannedHealthCheck,
  PlannedLocalNodePort,
  PlannedUdp,
  PlannedVirtualServer,
  ServicePlan,
} from '../service-plan.ts';
import { type Conflict, type ConflictChanges, ServiceClaims } from './service-claims.ts';
import { SET_ROLES, type SetRole } from '../../state/set-roles.ts';

/** A virtual server that must match `wanted`, or must not exist if `wanted` is undefined. */
export interface VirtualServerChange {
  readonly id: VirtualServerId;
  /** What was wanted at the last takeChanges(); 'unknown' if the kernel may have something else. */
  readonly before: PlannedVirtualServer | undefined | 'unknown';
  readonly wanted: PlannedVirtualServer | undefined;
}

export interface AddressChange {
  readonly address: IpAddress;
  readonly wanted: boolean;
}

export interface EntryChange extends PlannedEntry {
  readonly wanted: boolean;
}

/** The net change between two calls of takeChanges(). */
export interface PlanChanges {
  readonly virtualServers: readonly VirtualServerChange[];
  readonly addresses: readonly AddressChange[];
  readonly entries: readonly EntryChange[];
}

/** What else a new plan affects, including services that won or lost a claim because of it. */
export interface Consequences {
  readonly udpChanged: boolean;
  /** Whether a health check port was added or removed, has a new owner, or has a different response. */
  readonly healthChecksChanged: boolean;
}

/** Identifies a set by role and family, as a Map key. */
export type SetKey = `${SetRole}/${IpFamily}`;

export function setKey(role: SetRole, family: IpFamily): SetKey {
  return (family === 4 ? SET_KEYS_4 : SET_KEYS_6)[role];
}

// These keys are constants, because a concatenated string would be hashed at each lookup.
const SET_KEYS_4 = setKeys(4);
const SET_KEYS_6 = setKeys(6);

function setKeys(family: IpFamily): Readonly<Record<SetRole, SetKey>> {
  return Object.fromEntries(SET_ROLES.map((role) => [role, `${role}/${family}`])) as Record<SetRole, SetKey>;
}

/**
 * The merged plans of all services: the wanted state of this node's kernel. Each virtual server belongs to one service
 * (see ServiceClaims); a service that loses one keeps only what its other virtual servers need. Several services may
 * need the same address or set entry, so addresses and set entries are reference-counted.
 */
export class NodePlan {
  readonly roles: readonly SetRole[];
  readonly #services = new Map<NamespacedName, ServicePlan>();
  /** For each service that lost claims: its plan without them (see grantedPlan). Usually there is none. */
  readonly #granted = new Map<NamespacedName, ServicePlan>();
  readonly #claims = new ServiceClaims((key, id) => this.#rememberVirtualServer(key, id));
  readonly #addresses = new Map<IpAddress, number>();
  readonly #sets = new Map<SetKey, PlannedSet>();
  readonly #healthChecks = new Map<NamespacedName, PlannedHealthCheck>();
  /** Services whose Pods on this node answer clients themselves. */
  readonly #direct = new Set<NamespacedName>();

  /** Services whose node ports at loopback addresses changed since the last takeLocalNodePorts(). */
  readonly #changedLocally = new Set<NamespacedName>();

  // The state at the last takeChanges() of each object touched since then; 'unknown' always counts as a change.
  readonly #touchedVirtualServers = new Map<VirtualServerKey, Pick<VirtualServerChange, 'id' | 'before'>>();
  readonly #touchedAddresses = new Map<IpAddress, boolean | 'unknown'>();
  #recording = true;
  #nodeEntries: readonly PlannedEntry[] = EMPTY;

  /** @param roles the sets that the mode has; entries of others are left out */
  constructor(roles: readonly SetRole[] = SET_ROLES) {
    this.roles = roles;
  }

  replaceNodeEntries(planned: readonly PlannedEntry[]): void {
    const entries = planned.filter(({ role }) => this.roles.includes(role));
    for (const entry of entries) this.#set(entry).add(entry, this.#recording);
    for (const entry of this.#nodeEntries) this.#set(entry).remove(entry, this.#recording);
    this.#nodeEntries = entries;
  }

  /** Replaces a service's plan; undefined removes the service. */
  replace(service: NamespacedName, plan: ServicePlan | undefined): Consequences {
    const old = this.#services.get(service);
    const inForce = this.#inForce(service);
    if (plan === undefined) this.#services.delete(service);
    else this.#services.set(service, plan);
    if (old?.localNodePorts !== plan?.localNodePorts) this.#changedLocally.add(service);
    const moved = this.#claims.replace(service, old, plan);
    let { udpChanged, healthChecksChanged } = this.#enforce(service, inForce);
    for (const other of moved) {
      if (other === service) continue;
      const consequences = this.#enforce(other, this.#inForce(other));
      udpChanged ||= consequences.udpChanged;
      healthChecksChanged ||= consequences.healthChecksChanged;
    }
    return { udpChanged, healthChecksChanged };
  }

  /** Returns the service's plan without its lost claims. */
  #inForce(service: NamespacedName): ServicePlan | undefined {
    return this.#granted.get(service) ?? this.#services.get(service);
  }

  /** Replaces the references of the plan `before` with those of the service's current plan without its lost claims. */
  #enforce(service: NamespacedName, before: ServicePlan | undefined): Consequences {
    const plan = this.#services.get(service);
    const after = plan === undefined ? undefined : this.#claims.grant(plan, before);
    if (after !== undefined && (after !== plan || this.#granted.has(service))) this.#claims.enforce(after);
    if (after === undefined || after === plan) this.#granted.delete(service);
    else this.#granted.set(service, after);
    if (after?.healthCheck === undefined) this.#healthChecks.delete(service);
    else this.#healthChecks.set(service, after.healthCheck);
    if (after?.virtualServers.some(({ direct }) => direct !== undefined) === true) this.#direct.add(service);
    else this.#direct.delete(service);
    // Add new references before dropping old ones, so that no shared object is removed meanwhile. Skip identical parts.
    if (after !== undefined) this.#count(after, before, 1);
    if (before !== undefined) this.#count(before, after, -1);
    return {
      udpChanged: (before?.udp ?? EMPTY) !== (after?.udp ?? EMPTY),
      healthChecksChanged: !sameHealthCheck(before?.healthCheck, after?.healthCheck),
    };
  }

  /** Adds or drops the references of a plan, except those of parts that are identical in `other`. */
  #count(plan: ServicePlan, other: ServicePlan | undefined, difference: 1 | -1): void {
    if (plan.addresses !== other?.addresses) {
      for (const address of plan.addresses) this.#countAddress(address, difference);
    }
    if (plan.entries === other?.entries) return;
    const change = difference === 1 ? 'add' : 'remove';
    for (const entry of plan.entries) {
      if (this.roles.includes(entry.role)) this.#set(entry)[change](entry, this.#recording);
    }
  }

  /** Returns the service's plan, including lost claims. */
  service(name: NamespacedName): ServicePlan | undefined {
    return this.#services.get(name);
  }

  /** Yields each service's plan without its lost claims. */
  *services(): IterableIterator<ServicePlan> {
    for (const [service, plan] of this.#services) yield this.#granted.get(service) ?? plan;
  }

  get healthChecks(): ReadonlyMap<NamespacedName, PlannedHealthCheck> {
    return this.#healthChecks;
  }

  /** Returns which Pods on this node answer clients of which address themselves. */
  *directPods(): IterableIterator<DirectPod> {
    for (const service of this.#direct) {
      for (const { virtualServer, direct } of this.#inForce(service)?.virtualServers ?? EMPTY) {
        if (direct === undefined) continue;
        const { pods, ...how } = direct;
        for (const pod of pods) yield { service, pod, address: virtualServer.address, ...how };
      }
    }
  }

  /** Returns the Services whose node ports at loopback addresses changed since the last call, with all that they have. */
  takeLocalNodePorts(): ReadonlyMap<NamespacedName, readonly PlannedLocalNodePort[]> {
    const changed = Array.from(
      this.#changedLocally,
      (service) => [service, this.#services.get(service)?.localNodePorts ?? EMPTY] as const,
    );
    this.#changedLocally.clear();
    return new Map(changed);
  }

  get virtualServerCount(): number {
    return this.#claims.virtualServers.size;
  }

  get addressCount(): number {
    return this.#addresses.size;
  }

  /** Yields every virtual server that must exist. */
  *virtualServers(): IterableIterator<PlannedVirtualServer> {
    for (const { planned } of this.#claims.virtualServers.owners()) yield planned;
  }

  virtualServer(key: VirtualServerKey): PlannedVirtualServer | undefined {
    return this.#claims.virtualServers.owner(key)?.planned;
  }

  ownerOf(key: VirtualServerKey): NamespacedName | undefined {
    return this.#claims.virtualServers.owner(key)?.service;
  }

  /**
   * Returns a look-up of the serving endpoints of a UDP virtual server; undefined if no service owns it, or if it forwards without
   * NAT. It is for one clean-up, because it indexes each service once.
   */
  answering(): (key: VirtualServerKey) => PlannedUdp['answering'] | undefined {
    const indexes = new Map<NamespacedName, ReadonlyMap<VirtualServerKey, PlannedUdp['answering']>>();
    return (key) => {
      const owner = this.#claims.virtualServers.owner(key)?.service;
      if (owner === undefined) return undefined;
      let index = indexes.get(owner);
      if (index === undefined) {
        const udp = this.#services.get(owner)?.udp ?? EMPTY;
        indexes.set(owner, (index = new Map(udp.map(({ id, answering }) => [virtualServerKey(id), answering]))));
      }
      return index.get(key);
    };
  }

  /** Whether a service has a UDP virtual server with NAT. */
  get servesUdp(): boolean {
    for (const { udp } of this.#services.values()) if (udp.length > 0) return true;
    return false;
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

  takeConflictChanges(): ConflictChanges {
    return this.#claims.takeConflictChanges();
  }

  conflictsOf(service: NamespacedName): readonly Conflict[] {
    const plan = this.#services.get(service);
    return plan === undefined ? EMPTY : this.#claims.conflictsOf(plan);
  }

  /** Makes takeChanges() include a virtual server whose last operation failed or whose real servers are draining. */
  touchVirtualServer(id: VirtualServerId): void {
    this.#touchedVirtualServers.set(virtualServerKey(id), { id, before: 'unknown' });
  }

  touchAddress(address: IpAddress): void {
    this.#touchedAddresses.set(address, 'unknown');
  }

  /** Returns the net change since the last call. */
  takeChanges(): PlanChanges {
    const virtualServers: VirtualServerChange[] = [];
    for (const [key, { id, before }] of this.#touchedVirtualServers) {
      const wanted = this.virtualServer(key);
      if (before !== wanted && !isOfOtherList(before, wanted)) virtualServers.push({ id, before, wanted });
    }
    const addresses: AddressChange[] = [];
    for (const [address, before] of this.#touchedAddresses) {
      const wanted = this.#addresses.has(address);
      if (before !== wanted) addresses.push({ address, wanted });
    }
    const entries: EntryChange[] = [];
    for (const set of this.#sets.values()) {
      if (set.hasChanges) for (const change of set.takeChanges()) entries.push(change);
    }
    this.forgetChanges();
    return { virtualServers, addresses, entries };
  }

  /** Stops recording until takeChanges() or forgetChanges(), because a first sync compares everything anyway. */
  ignoreChanges(): void {
    this.forgetChanges();
    this.#recording = false;
  }

  forgetChanges(): void {
    this.#recording = true;
    this.#touchedVirtualServers.clear();
    this.#touchedAddresses.clear();
    for (const set of this.#sets.values()) set.forgetChanges();
  }

  #rememberVirtualServer(key: VirtualServerKey, id: VirtualServerId): void {
    if (!this.#recording || this.#touchedVirtualServers.has(key)) return;
    this.#touchedVirtualServers.set(key, { id: virtualServerId(id), before: this.virtualServer(key) });
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

/** Whether only the list that it shares with its lender has changed: that is a change of the lender. */
function isOfOtherList(before: VirtualServerChange['before'], wanted: PlannedVirtualServer | undefined): boolean {
  if (before === undefined || before === 'unknown' || wanted === undefined) return false;
  const { virtualServer } = wanted;
  return borrows(virtualServer, virtualServer) && hasSameSettings(before.virtualServer, virtualServer);
}

const NO_ENTRIES: PlannedSetEntries = new Map();

function sameHealthCheck(a: PlannedHealthCheck | undefined, b: PlannedHealthCheck | undefined): boolean {
  return a?.port === b?.port && IP_FAMILIES.every((family) => a?.localEndpoints[family] === b?.localEndpoints[family]);
}

/** Returns the entries of a set without role and family. */
export function plannedEntries(entries: PlannedSetEntries): IpSetEntry[] {
  return Array.from(entries.values(), ({ entry }) => entry);
}
