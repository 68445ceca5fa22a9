import { type IpAddress, type IpFamily, compareIp, formatHostPort } from '../../base/ip.ts';
import type { Protocol } from '../../base/protocol.ts';
import type { AddressTraits } from '../../state/address-traits.ts';
import { type IpSetEntry, type IpSetEntryKey, ipSetEntryKey } from '../../state/ip-set.ts';
import { setName } from '../../state/set-roles.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  compareVirtualServer,
  virtualServerKey,
} from '../../state/virtual-server.ts';
import { type Endpoint, hasSameIdentity } from '../../state/real-server.ts';
import type { ServiceState } from '../service-ops.ts';
import { SERVED_KINDS, type ServedAddress, type ServicePort } from './render/service-port.ts';

/** A virtual server as the chains have it. */
export interface Server {
  readonly id: VirtualServerId;
  /** The port of a Service to which it belongs. */
  readonly name: string;
  /** Its endpoints are sorted. Virtual servers of a service port that have the same state share it. */
  readonly state: ServiceState;
  /** The properties of its address; absent if no operation named them. */
  readonly traits?: AddressTraits | undefined;
}

export function sortedEndpoints(endpoints: Iterable<Endpoint>): readonly Endpoint[] {
  return [...endpoints].sort((a, b) => compareIp(a.address, b.address) || a.port - b.port);
}

/** Identifies a service port: its name and protocol. */
export type ServicePortKey = `${string} ${Protocol}`;

export function servicePortKey(name: string, protocol: Protocol): ServicePortKey {
  return `${name} ${protocol}`;
}

/** No namespace is empty. */
const UNNAMED = '/';

/** Returns the service port of a virtual server; one that has no name is a service port of its own. */
export function nameOf({ servicePort, address, port }: VirtualServer): string {
  return servicePort ?? `${UNNAMED}${formatHostPort(address, port)}`;
}

/** Whether a virtual server had no name. */
export function isUnnamed(name: string): boolean {
  return name.startsWith(UNNAMED);
}

function hasSameState(a: ServiceState, b: ServiceState): boolean {
  return (
    a.affinity === b.affinity &&
    a.endpoints.length === b.endpoints.length &&
    a.endpoints.every((endpoint, at) => hasSameIdentity(endpoint, b.endpoints[at] as Endpoint))
  );
}

/** The meaning of one family's chains: virtual servers, and the ports and addresses of the node that they open. */
export class ProxyState {
  readonly family: IpFamily;
  readonly #servers = new Map<VirtualServerKey, Server>();
  readonly #ports = new Map<ServicePortKey, Set<VirtualServerKey>>();
  readonly #entries = new Map<string, Map<IpSetEntryKey, IpSetEntry>>();

  constructor(family: IpFamily) {
    this.family = family;
  }

  servers(): IterableIterator<Server> {
    return this.#servers.values();
  }

  server(id: VirtualServerId): Server | undefined {
    return this.#servers.get(virtualServerKey(id));
  }

  setServer(id: VirtualServerId, server: Server | undefined): void {
    const key = virtualServerKey(id);
    const before = this.#servers.get(key);
    if (before !== undefined) this.#leave(servicePortKey(before.name, id.protocol), key);
    if (server === undefined) {
      this.#servers.delete(key);
      return;
    }
    this.#servers.set(key, server);
    const port = servicePortKey(server.name, id.protocol);
    const others = this.#ports.get(port);
    if (others === undefined) this.#ports.set(port, new Set([key]));
    else others.add(key);
  }

  #leave(port: ServicePortKey, key: VirtualServerKey): void {
    const others = this.#ports.get(port);
    others?.delete(key);
    if (others?.size === 0) this.#ports.delete(port);
  }

  /** Returns the same state as another virtual server of the service port has it, if there is one. */
  shared(port: ServicePortKey, state: ServiceState): ServiceState {
    let other: ServiceState | undefined;
    for (const key of this.#ports.get(port) ?? []) {
      const found = this.#servers.get(key)?.state;
      if (found === undefined || found === other) continue;
      if (found === state || hasSameState(found, state)) return found;
      other = found;
    }
    return state;
  }

  entriesOf(set: string): Iterable<IpSetEntry> {
    return this.#entries.get(set)?.values() ?? [];
  }

  hasEntry(set: string, entry: IpSetEntry): boolean {
    return this.#entries.get(set)?.has(ipSetEntryKey(entry)) === true;
  }

  setEntry(set: string, entry: IpSetEntry, present: boolean): void {
    let entries = this.#entries.get(set);
    if (entries === undefined) this.#entries.set(set, (entries = new Map()));
    if (present) entries.set(ipSetEntryKey(entry), entry);
    else entries.delete(ipSetEntryKey(entry));
  }

  /** The addresses that serve node ports, sorted. */
  nodePortAddresses(): readonly IpAddress[] {
    const entries = [...this.entriesOf(setName('NODE-PORT-IP', this.family))];
    return entries.flatMap((entry) => (entry.type === 'hash:ip' ? [entry.address] : [])).sort(compareIp);
  }

  servicePorts(): IterableIterator<ServicePortKey> {
    return this.#ports.keys();
  }

  /** Undefined if it has no virtual server. */
  servicePort(port: ServicePortKey): ServicePort | undefined {
    const servers = Array.from(this.#ports.get(port) ?? [], (key) => this.#servers.get(key));
    const [first] = servers;
    if (first === undefined) return undefined;
    const addresses = servers.flatMap((server) => (server === undefined ? [] : [servedBy(server)]));
    addresses.sort(
      (a, b) => SERVED_KINDS.indexOf(a.kind) - SERVED_KINDS.indexOf(b.kind) || compareVirtualServer(a.id, b.id),
    );
    return { family: this.family, name: first.name, protocol: first.id.protocol, addresses };
  }
}

function servedBy({ id, state, traits }: Server): ServedAddress {
  return { ...(traits ?? UNKNOWN), id, affinity: state.affinity, endpoints: state.endpoints };
}

const UNKNOWN = { kind: 'address', keepsSource: true } as const;
