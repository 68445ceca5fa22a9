import type { Cidr } from '../net/cidr.ts';
import type { IpAddress } from '../net/ip.ts';
import type { NamespacedName } from '../net/names.ts';
import type { Port } from '../net/port.ts';
import type { Protocol } from '../net/protocol.ts';
import type { ModelWarning } from './warnings.ts';

/** What many endpoints have in common: mostly all that are alike share one object. */
export interface EndpointTraits {
  /** On this node. */
  readonly local: boolean;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** Topology hints: the zones and nodes that should use this endpoint; empty when there is no such hint. */
  readonly zones: readonly string[];
  readonly nodes: readonly string[];
}

/** An address that serves one service port. Whoever is neither ready nor serving is not here. */
export interface EndpointModel extends EndpointTraits {
  readonly address: IpAddress;
  readonly port: Port;
}

export interface ServicePortDefinition {
  /** "" for the single unnamed port. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: Port;
  readonly nodePort?: Port;
}

export interface ServicePortModel extends ServicePortDefinition {
  /** Both families, sorted by address and port, no two alike. */
  readonly endpoints: readonly EndpointModel[];
}

/**
 * A Service, checked: what is here can be programmed. Parts that cannot are left out, each kind with a warning. Lists are sorted
 * and without duplicates, so that two definitions that mean the same are deeply equal.
 */
export interface ServiceDefinition {
  readonly name: NamespacedName;
  /** One a family. A family without one is not served at all, whatever else names it. */
  readonly clusterIps: readonly IpAddress[];
  readonly externalIps: readonly IpAddress[];
  /** Of ingresses with ipMode VIP. */
  readonly loadBalancerIps: readonly IpAddress[];
  readonly sourceRanges: readonly Cidr[];
  /** One of loadBalancerSourceRanges could not be read: a family without readable ones is then closed, not open. */
  readonly sourceRangeUnreadable: boolean;
  /** Seconds of ClientIP affinity; 0 for none. */
  readonly affinitySeconds: number;
  readonly internalLocal: boolean;
  readonly externalLocal: boolean;
  /** There only for type LoadBalancer with policy Local. */
  readonly healthCheckNodePort?: Port;
  readonly ports: readonly ServicePortDefinition[];
  readonly warnings: readonly ModelWarning[];
}

/** The definition with the endpoints of all its slices. */
export interface ServiceModel extends ServiceDefinition {
  readonly ports: readonly ServicePortModel[];
}
