import { type Cidr, compareCidr, formatCidr } from '../../base/cidr.ts';
import { type IpAddress, type IpFamily, compareIp, formatHostPort } from '../../base/ip.ts';
import type { Port } from '../../base/port.ts';
import type { Protocol } from '../../base/protocol.ts';
import { type IpSetEntry, type IpSetEntryKey, ipSetEntryKey, ipSetName } from '../../state/ip-set.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  compareVirtualServer,
  virtualServerKey,
} from '../../state/virtual-server.ts';
import { type Endpoint, hasSameIdentity } from '../../state/real-server.ts';
import type { ServiceState } from '../service-ops.ts';
import type { Role } from './roles.ts';
import { ADDRESS_KINDS, type ServedAddress, type ServicePort } from './service-port.ts';

/** A virtual server as the chains have it. */
export interface Server {
  readonly id: VirtualServerId;
  /** The port of a Service to which it belongs. */
  readonly name: string;
  /** Its endpoints are sorted. Virtual servers of a service port that have the same state may share it. */
  readonly state: ServiceState;
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

type Entries = Map<IpSetEntryKey, IpSetEntry>;

/** What the chains of one family mean: virtual servers, and the entries of the sets that stand for their roles. */
export class ProxyState {
  readonly family: IpFamily;
  readonly #servers = new Map<VirtualServerKey, Server>();
  readonly #ports = new Map<ServicePortKey, Set<VirtualServerKey>>();
  /** By the names of sets. */
  readonly #entries = new Map<string, Entries>();
  readonly #ranges = new Map<VirtualServerKey, Map<string, Cidr>>();

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
    if (entry.type === 'hash:ip,port,net') this.#setRange(entry, entry.network, present);
  }

  #setRange(id: VirtualServerId, network: Cidr, present: boolean): void {
    const key = virtualServerKey(id);
    let ranges = this.#ranges.get(key);
    if (ranges === undefined) this.#ranges.set(key, (ranges = new Map()));
    if (present) ranges.set(formatCidr(network), network);
    else ranges.delete(formatCidr(network));
    if (ranges.size === 0) this.#ranges.delete(key);
  }

  #has(role: Role, entry: IpSetEntry): boolean {
    return this.hasEntry(ipSetName(role, this.family), entry);
  }

  /** The addresses that serve node ports, sorted. */
  nodePortAddresses(): readonly IpAddress[] {
    const entries = [...this.entriesOf(ipSetName('NODE-PORT-IP', this.family))];
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
    const addresses = servers.flatMap((server) => (server === undefined ? [] : [this.#served(server)]));
    addresses.sort(
      (a, b) => ADDRESS_KINDS.indexOf(a.kind) - ADDRESS_KINDS.indexOf(b.kind) || compareVirtualServer(a.id, b.id),
    );
    return { family: this.family, name: first.name, protocol: first.id.protocol, addresses };
  }

  #served({ id, state }: Server): ServedAddress {
    const ranges = this.#ranges.get(virtualServerKey(id));
    const entry = { type: 'hash:ip,port', ...id } as const;
    return {
      id,
      ...this.roleOf(id),
      ranges: this.#has('LOAD-BALANCER-FW', entry) ? [...(ranges?.values() ?? [])].sort(compareCidr) : undefined,
      admitsItself: this.#has('LOAD-BALANCER-SOURCE-IP', { ...id, type: 'hash:ip,port,ip', address2: id.address }),
      affinity: state.affinity,
      endpoints: state.endpoints,
    };
  }

  /** Returns what the sets say of an address and port. */
  roleOf(id: VirtualServerId): Pick<ServedAddress, 'kind' | 'keepsSource'> {
    const entry = { type: 'hash:ip,port', address: id.address, protocol: id.protocol, port: id.port } as const;
    // The deny entry alone suffices: without the other one, an address with source ranges must not be open to everyone.
    if (this.#has('LOAD-BALANCER', entry) || this.#has('LOAD-BALANCER-FW', entry)) {
      return { kind: 'loadBalancer', keepsSource: this.#has('LOAD-BALANCER-LOCAL', entry) };
    }
    if (this.#has('CLUSTER-IP', entry)) return { kind: 'cluster', keepsSource: true };
    if (this.#has('EXTERNAL-IP', entry)) return { kind: 'external', keepsSource: false };
    if (this.#has('EXTERNAL-IP-LOCAL', entry)) return { kind: 'external', keepsSource: true };
    const [all, local] = NODE_PORT_ROLES[id.protocol];
    const port = nodePortEntry(id);
    if (this.#has('NODE-PORT-IP', { type: 'hash:ip', address: id.address }) && this.#has(all, port)) {
      return { kind: 'nodePort', keepsSource: this.#has(local, port) };
    }
    return { kind: 'address', keepsSource: true };
  }
}

/** The sets of node ports, and of those with externalTrafficPolicy Local. */
export const NODE_PORT_ROLES: Readonly<Record<Protocol, readonly [all: Role, local: Role]>> = {
  TCP: ['NODE-PORT-TCP', 'NODE-PORT-LOCAL-TCP'],
  UDP: ['NODE-PORT-UDP', 'NODE-PORT-LOCAL-UDP'],
  SCTP: ['NODE-PORT-SCTP-HASH', 'NODE-PORT-LOCAL-SCTP-HASH'],
};

/** Returns the entry of a node port. That of SCTP names the address, too. */
export function nodePortEntry({
  address,
  protocol,
  port,
}: {
  readonly address: IpAddress;
  readonly protocol: Protocol;
  readonly port: Port;
}): IpSetEntry {
  return protocol === 'SCTP' ? { type: 'hash:ip,port', address, protocol, port } : { type: 'bitmap:port', port };
}
