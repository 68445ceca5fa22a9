import type { IpAddress, IpFamily } from '../net/ip.ts';
import type { NamespacedName } from '../net/names.ts';
import type { Port } from '../net/port.ts';
import type { IpSetEntry } from '../state/ip-set.ts';
import type { RealServer } from '../state/real-server.ts';
import type { VirtualServer, VirtualServerId } from '../state/virtual-server.ts';
import type { SetRole } from './set-names.ts';

/** A virtual server with all its real servers: weight 1 each, no duplicates, sorted by address then port. */
export interface PlannedVirtualServer {
  readonly virtualServer: VirtualServer;
  readonly realServers: readonly RealServer[];
}

/** An entry that a set must hold. */
export interface PlannedEntry {
  readonly role: SetRole;
  readonly family: IpFamily;
  readonly entry: IpSetEntry;
}

/** What a service's healthCheckNodePort listener must answer. */
export interface PlannedHealthCheck {
  readonly port: Port;
  /** Distinct local ready endpoints, over both families. */
  readonly localEndpoints: number;
}

/** For the clean-up of UDP flows: a virtual server, and who may still answer for it (serving endpoints of any node). */
export interface PlannedUdp {
  readonly id: VirtualServerId;
  readonly answering: readonly Pick<RealServer, 'address' | 'port'>[];
}

/** Something about the service that its owner should hear of; everything else of it is programmed all the same. */
export interface PlanWarning {
  /** Stable word for tests and metrics, e.g. "invalid-address", "node-owns-address". */
  readonly reason: string;
  readonly message: string;
}

/** All that one Service demands of this node's kernel. A value: two plans that demand the same are deeply equal. */
export interface ServicePlan {
  readonly service: NamespacedName;
  readonly virtualServers: readonly PlannedVirtualServer[];
  /** To be bound to kube-ipvs0. */
  readonly addresses: readonly IpAddress[];
  readonly entries: readonly PlannedEntry[];
  readonly healthCheck?: PlannedHealthCheck;
  readonly udp: readonly PlannedUdp[];
  /** A Local policy that found endpoints somewhere, but none here (metric no_local_endpoints). */
  readonly noLocalEndpoints: { readonly internal: boolean; readonly external: boolean };
  readonly warnings: readonly PlanWarning[];
}
