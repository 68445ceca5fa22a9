/** What both sides are given: a configuration, our node, and a history of the cluster. The JSON form is upstream/case.go. */
export interface Case {
  readonly id: number;
  readonly mode: 'ipvs' | 'nftables' | 'iptables';
  /** How many times upstream plays it. */
  readonly runs: number;
  readonly config: CaseConfig;
  readonly node: NodeObject;
  /** Addresses with their prefix lengths, by interface. */
  readonly interfaces: Readonly<Record<string, readonly string[]>>;
  readonly steps: readonly Step[];
}

/** Settings with the names of KubeProxyConfiguration. */
export interface CaseConfig {
  readonly scheduler: string;
  readonly masqueradeAll: boolean;
  /** Pods of our node are behind the interface `cni0`. */
  readonly detectLocalMode: '' | 'ClusterCIDR' | 'NodeCIDR' | 'BridgeInterface' | 'InterfaceNamePrefix';
  readonly clusterCIDRs: readonly string[];
  readonly nodePortAddresses: readonly string[];
  readonly bindAddress: string;
  readonly featureGates: Readonly<Record<string, boolean>>;
}

/** What changes before one sync. */
export interface Step {
  readonly apply: readonly ClusterObject[];
  readonly remove: readonly ObjectName[];
  /** The tracked UDP flows before the sync. */
  readonly flows: readonly CaseFlow[];
}

export interface ObjectName {
  readonly kind: 'Service' | 'EndpointSlice';
  readonly namespace: string;
  readonly name: string;
}

export interface CaseFlow {
  readonly source: string;
  readonly sourcePort: number;
  readonly destination: string;
  readonly destinationPort: number;
  readonly replySource: string;
  readonly replySourcePort: number;
}

interface Meta {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

interface NamespacedMeta extends Meta {
  readonly namespace: string;
  readonly creationTimestamp: string;
}

export interface NodeObject {
  readonly apiVersion: 'v1';
  readonly kind: 'Node';
  readonly metadata: Meta;
  readonly spec: { readonly podCIDRs: readonly string[] };
  readonly status: { readonly addresses: readonly { readonly type: string; readonly address: string }[] };
}

export type ClusterObject = ServiceObject | SliceObject;

export interface ServicePortObject {
  readonly name: string;
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  readonly port: number;
  readonly nodePort?: number;
}

export interface ServiceObject {
  readonly apiVersion: 'v1';
  readonly kind: 'Service';
  readonly metadata: NamespacedMeta;
  readonly spec: {
    readonly type: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName';
    readonly clusterIP?: string;
    readonly clusterIPs?: readonly string[];
    readonly ipFamilies?: readonly ('IPv4' | 'IPv6')[];
    readonly externalName?: string;
    readonly externalIPs?: readonly string[];
    readonly ports: readonly ServicePortObject[];
    readonly sessionAffinity?: 'None' | 'ClientIP';
    readonly sessionAffinityConfig?: { readonly clientIP: { readonly timeoutSeconds: number } };
    readonly internalTrafficPolicy?: 'Cluster' | 'Local';
    readonly externalTrafficPolicy?: 'Cluster' | 'Local';
    readonly healthCheckNodePort?: number;
    readonly loadBalancerSourceRanges?: readonly string[];
    readonly trafficDistribution?: string;
    readonly publishNotReadyAddresses?: boolean;
  };
  readonly status?: { readonly loadBalancer: { readonly ingress: readonly Readonly<Record<string, string>>[] } };
}

export interface EndpointObject {
  readonly addresses: readonly string[];
  readonly conditions: { readonly ready?: boolean; readonly serving?: boolean; readonly terminating?: boolean };
  readonly nodeName?: string;
  readonly zone?: string;
  readonly hints?: {
    readonly forZones?: readonly { readonly name: string }[];
    readonly forNodes?: readonly { readonly name: string }[];
  };
}

export interface SliceObject {
  readonly apiVersion: 'discovery.k8s.io/v1';
  readonly kind: 'EndpointSlice';
  readonly metadata: NamespacedMeta;
  readonly addressType: 'IPv4' | 'IPv6';
  readonly ports: readonly { readonly name: string; readonly protocol: string; readonly port?: number }[];
  readonly endpoints: readonly EndpointObject[];
}

/** Identifies an object within a case. */
export function keyOf({ kind, namespace, name }: ObjectName): string {
  return `${kind} ${namespace}/${name}`;
}

export function nameOf({ kind, metadata: { namespace, name } }: ClusterObject): ObjectName {
  return { kind, namespace, name };
}

/** The objects that exist, by keyOf. */
export type Objects = Map<string, ClusterObject>;

export function servicesOf(objects: Objects): ServiceObject[] {
  return [...objects.values()].filter((object) => object.kind === 'Service');
}

export function slicesOf(objects: Objects, { namespace, name }: ServiceObject['metadata']): SliceObject[] {
  const slices = [...objects.values()].filter((object) => object.kind === 'EndpointSlice');
  return slices.filter(
    ({ metadata }) => metadata.namespace === namespace && metadata.labels?.['kubernetes.io/service-name'] === name,
  );
}

/** The objects that exist after a step. */
export function objectsAt({ steps }: Case, step: number): Objects {
  const objects: Objects = new Map();
  for (const { apply, remove } of steps.slice(0, step + 1)) {
    for (const object of apply) objects.set(keyOf(nameOf(object)), object);
    for (const name of remove) objects.delete(keyOf(name));
  }
  return objects;
}
