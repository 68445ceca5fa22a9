import type { Cidr } from '../base/cidr.ts';
import type { IpAddress } from '../base/ip.ts';
import type { NamespacedName } from '../base/service/names.ts';
import type { Port } from '../base/port.ts';
import type { Protocol } from '../base/protocol.ts';
import type { AskedAnnotation } from './read-annotations.ts';
import type { ServiceRequests } from '../base/service/service-requests.ts';
import type { ModelWarning } from './warnings.ts';

/** The properties of an endpoint except address and port. Endpoints with equal traits share one object. */
export interface EndpointTraits {
  readonly local: boolean;
  /** Present if its slice does not say on which node the endpoint is: it may be on this one, but does not count as local. */
  readonly unplaced?: true;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** Present if the endpoint is on this node, and its slice says that it is a Pod of the Service's namespace. */
  readonly localPod?: true;
  /** The zone of the endpoint; absent if unknown. */
  readonly zone?: string;
  /** Topology hints: the zones and nodes that should use this endpoint; empty if there are no hints. */
  readonly zones: readonly string[];
  readonly nodes: readonly string[];
}

/** An endpoint of one service port. Endpoints that are neither ready nor serving are omitted. */
export interface EndpointModel {
  readonly address: IpAddress;
  readonly port: Port;
  readonly traits: EndpointTraits;
}

export interface ServicePortDefinition {
  /** Empty if the Service has a single, unnamed port. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: Port;
  readonly nodePort?: Port;
}

export interface ServicePortModel extends ServicePortDefinition {
  /** Endpoints of both families, sorted by address and port, without duplicates. */
  readonly endpoints: readonly EndpointModel[];
}

/**
 * A validated Service. Parts that cannot be programmed are omitted, with one warning for each kind of problem. Lists
 * are sorted and without duplicates, so two definitions with the same meaning are deeply equal.
 */
export interface ServiceDefinition {
  readonly name: NamespacedName;
  /** Creation time in seconds since 1970; absent if the object has no valid creation time. */
  readonly createdAt?: number;
  /** At most one address for each family. A family without a cluster IP is not served at all. */
  readonly clusterIps: readonly IpAddress[];
  readonly externalIps: readonly IpAddress[];
  /** IPs of the ingresses with ipMode VIP (the default). */
  readonly loadBalancerIps: readonly IpAddress[];
  readonly sourceRanges: readonly Cidr[];
  /** Whether a source range is invalid. A family without valid ranges then admits no client instead of all. */
  readonly sourceRangeUnreadable: boolean;
  /** Timeout of ClientIP session affinity in seconds; 0 if affinity is off. */
  readonly affinitySeconds: number;
  readonly internalLocal: boolean;
  readonly externalLocal: boolean;
  /** Present only for type LoadBalancer with externalTrafficPolicy Local. */
  readonly healthCheckNodePort?: Port;
  readonly ports: readonly ServicePortDefinition[];
  /** Whether its labels select it for traffic metrics of its own; absent if not. */
  readonly measured?: true;
  /** What its annotations and the operator's defaults ask for; absent without either. */
  readonly requests?: ServiceRequests;
  /** These annotations, with the reason for each one that is ignored, and defaults; absent without either. */
  readonly asked?: readonly AskedAnnotation[];
  readonly warnings: readonly ModelWarning[];
}

export interface ServiceModel extends ServiceDefinition {
  readonly ports: readonly ServicePortModel[];
}
