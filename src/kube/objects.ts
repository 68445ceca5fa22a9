/**
 * The API objects as the rest of the house sees them: only the fields that a service proxy reads, trimmed on arrival
 * (managedFields, status conditions and the like never reach memory). Field names and meanings are the API's. Values are as the
 * API server sent them: model/ checks them, for the API is untrusted input; kube/ guarantees only the types written here,
 * dropping a field whose type is wrong.
 */
export interface ObjectMeta {
  readonly namespace: string;
  readonly name: string;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** RFC 3339; there while the object is being deleted. */
  readonly deletionTimestamp?: string;
}

export interface ServicePort {
  /** "" for the single unnamed port. */
  readonly name: string;
  readonly protocol: string;
  readonly port: number;
  /** 0 when there is none. */
  readonly nodePort: number;
}

export interface LoadBalancerIngress {
  readonly ip?: string;
  readonly hostname?: string;
  /** "VIP" when absent. */
  readonly ipMode?: string;
}

export interface Service {
  readonly meta: ObjectMeta;
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
  /** status.loadBalancer.ingress */
  readonly loadBalancerIngress: readonly LoadBalancerIngress[];
}

/** A list of a hundred thousand is held until it is whole: each has all fields and one shape, and no list of its own that is empty. */
export interface Endpoint {
  /** The first of its addresses, the only one that counts; "" when there is none. */
  readonly address: string;
  /** "" when it is not said. */
  readonly nodeName: string;
  /** Conditions, nil read as the API says: ready and serving true, terminating false. */
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  readonly hintZones: readonly string[];
  readonly hintNodes: readonly string[];
}

export interface EndpointPort {
  /** undefined: no name given (nil); "" is a valid name. */
  readonly name?: string;
  readonly protocol: string;
  /** undefined: "all ports", which a service proxy does not support. */
  readonly port?: number;
}

export interface EndpointSlice {
  readonly meta: ObjectMeta;
  /** IPv4, IPv6 or FQDN. */
  readonly addressType: string;
  readonly endpoints: readonly Endpoint[];
  readonly ports: readonly EndpointPort[];
}

export interface NodeTaint {
  readonly key: string;
  readonly value: string;
  readonly effect: string;
}

export interface Node {
  readonly meta: ObjectMeta;
  readonly podCIDRs: readonly string[];
  readonly taints: readonly NodeTaint[];
  /** status.addresses */
  readonly addresses: readonly { readonly type: string; readonly address: string }[];
}
