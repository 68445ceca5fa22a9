import type { IpAddress, IpFamily } from '../base/ip.ts';
import type { NamespacedName } from '../base/service/names.ts';
import type { Port } from '../base/port.ts';
import type { AddressTraits } from '../state/address-traits.ts';
import type { Protocol } from '../base/protocol.ts';
import type { IpSetEntry } from '../state/ip-set.ts';
import type { DirectPod } from '../state/pod-network.ts';
import type { Endpoint, RealServer } from '../state/real-server.ts';
import { type VirtualServer, type VirtualServerId, borrows } from '../state/virtual-server.ts';
import type { SetRole } from '../state/set-roles.ts';

/** A virtual server, and its real servers sorted by address and port, without duplicates. */
export interface PlannedVirtualServer {
  readonly virtualServer: VirtualServer;
  readonly realServers: readonly RealServer[];
  /** The properties of its address on which the rules depend. */
  readonly traits: AddressTraits;
  /** Name of the Service port; unique within the protocol. */
  readonly portName: string;
  /** How long a removed real server may keep its connections, in ms; 0: no limit; absent: as on the whole node. */
  readonly drainTimeout?: number;
  /** Pods on this node that must answer clients of the address themselves; absent with NAT. */
  readonly direct?: Pick<DirectPod, 'method' | 'encapsulation'> & { readonly pods: readonly IpAddress[] };
}

/** Returns the real servers to write for it: none if it uses the list of another virtual server. */
export function ownServers({ virtualServer, realServers }: PlannedVirtualServer): readonly RealServer[] {
  return borrows(virtualServer, virtualServer) ? [] : realServers;
}

/** An entry that a set must contain. */
export interface PlannedEntry {
  readonly role: SetRole;
  readonly family: IpFamily;
  readonly entry: IpSetEntry;
}

/** Endpoints of a Service port that may connect to themselves through the Service from this node. */
export interface PlannedHairpin {
  readonly portName: string;
  readonly protocol: Protocol;
  readonly endpoints: readonly Endpoint[];
}

/** A node port at a loopback address, which the user-space engine serves. */
export interface PlannedLocalNodePort extends VirtualServerId {
  /** Name of the Service port. */
  readonly portName: string;
  readonly realServers: readonly RealServer[];
  readonly scheduler: string;
  /** 0: no session affinity. */
  readonly affinitySeconds: number;
}

/** The response data of a service's healthCheckNodePort listeners: one for each family of the Service. */
export interface PlannedHealthCheck {
  readonly port: Port;
  /** The number of distinct addresses of local ready endpoints, for each family of the Service. */
  readonly localEndpoints: Readonly<Partial<Record<IpFamily, number>>>;
}

/**
 * Input of the UDP flow clean-up: a virtual server, and its serving endpoints on all nodes. One that forwards without NAT has
 * none of these, because its flows do not name the endpoint.
 */
export interface PlannedUdp {
  readonly id: VirtualServerId;
  readonly answering: readonly RealServer[];
}

/** A problem to report to the owner of the service; the rest of the service is programmed. */
export interface PlanWarning {
  /** Stable identifier, such as "invalid-address" or "node-owns-address". */
  readonly reason: string;
  readonly message: string;
}

/** All kernel objects that a Service needs on this node. Two plans with the same content are deeply equal. */
export interface ServicePlan {
  readonly service: NamespacedName;
  /** Creation time in seconds since 1970; absent if unknown. */
  readonly createdAt?: number;
  readonly virtualServers: readonly PlannedVirtualServer[];
  /** Addresses to bind to kube-ipvs0. */
  readonly addresses: readonly IpAddress[];
  /** Addresses whose ports without a Service reject new connections. */
  readonly closed: readonly IpAddress[];
  readonly hairpins: readonly PlannedHairpin[];
  /** The set entries that follow from all this. */
  readonly entries: readonly PlannedEntry[];
  readonly healthCheck?: PlannedHealthCheck;
  readonly udp: readonly PlannedUdp[];
  /** Absent if there are none. */
  readonly localNodePorts?: readonly PlannedLocalNodePort[];
  /** Families with a Local policy and usable endpoints only on other nodes (metric no_local_endpoints). */
  readonly noLocalEndpoints: { readonly internal: readonly IpFamily[]; readonly external: readonly IpFamily[] };
  readonly warnings: readonly PlanWarning[];
}
