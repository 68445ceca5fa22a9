import type { ServiceDefaults } from '../../base/service/service-defaults.ts';
import type { Annotations, Labels } from '../../base/well-known-labels.ts';

/**
 * API objects reduced to the fields that a service proxy reads (without managedFields, status conditions and others).
 * Fields have the names and meanings of the API. kube/ drops fields of the wrong type; model/ validates the untrusted
 * values.
 */
export interface ObjectMeta {
  readonly namespace: string;
  readonly name: string;
  readonly resourceVersion: string;
  readonly labels: Labels;
  readonly annotations: Annotations;
  /** RFC 3339; set while the object is being deleted. */
  readonly deletionTimestamp?: string;
}

export interface ServicePort {
  /** "" for the single unnamed port. */
  readonly name: string;
  readonly protocol: string;
  readonly port: number;
  /** 0 if the port has no node port. */
  readonly nodePort: number;
}

export interface LoadBalancerIngress {
  readonly ip: string;
  /** Means "VIP" if absent. */
  readonly ipMode?: string;
}

export interface Service {
  readonly meta: ObjectMeta;
  /** metadata.creationTimestamp, RFC 3339; manifests may lack it. */
  readonly creationTimestamp?: string;
  readonly type: string;
  readonly clusterIP: string;
  readonly clusterIPs: readonly string[];
  readonly ipFamilies: readonly string[];
  readonly externalIPs: readonly string[];
  readonly ports: readonly ServicePort[];
  readonly sessionAffinity: string;
  /** sessionAffinityConfig.clientIP.timeoutSeconds */
  readonly affinityTimeoutSeconds?: number;
  readonly internalTrafficPolicy: string;
  readonly externalTrafficPolicy: string;
  readonly healthCheckNodePort: number;
  readonly loadBalancerSourceRanges: readonly string[];
  /** Whether its labels select it for traffic metrics of its own; absent if not. */
  readonly measured?: true;
  /** Its annotations that are for this program, without our prefix; absent if there are none. */
  readonly annotations?: readonly { readonly name: string; readonly value: string }[];
  /** The operator's defaults that its labels select; absent if there are none. */
  readonly defaults?: readonly ServiceDefaults[];
  /** status.loadBalancer.ingress */
  readonly loadBalancerIngress: readonly LoadBalancerIngress[];
}

/** A list may hold 100,000 endpoints in memory, so all have the same hidden class and share empty lists. */
export interface Endpoint {
  /** addresses[0]; the API gives the others no meaning. "" if the endpoint has no address. */
  readonly address: string;
  /** "" if unknown. */
  readonly nodeName: string;
  /** "" if unknown. */
  readonly zone: string;
  /** Conditions. As in the API, absent ready and serving mean true, and absent terminating means false. */
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** Whether targetRef names a Pod in the namespace of the slice. */
  readonly ownPod: boolean;
  readonly hintZones: readonly string[];
  readonly hintNodes: readonly string[];
}

export interface EndpointPort {
  /** As in the API, absent means "", which matches the unnamed port of a Service. */
  readonly name: string;
  readonly protocol: string;
  /** undefined means all ports, which a service proxy does not support. */
  readonly port?: number;
}

export interface EndpointSlice {
  readonly meta: ObjectMeta;
  /** IPv4, IPv6 or FQDN. */
  readonly addressType: string;
  readonly endpoints: readonly Endpoint[];
  readonly ports: readonly EndpointPort[];
}

export interface Node {
  readonly meta: ObjectMeta;
  readonly podCIDRs: readonly string[];
  readonly taintKeys: readonly string[];
  /** status.addresses */
  readonly addresses: readonly { readonly type: string; readonly address: string }[];
}
