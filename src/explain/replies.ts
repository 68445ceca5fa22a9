/**
 * The replies to the subcommands, as JSON has them (docs/explain.md). Addresses, durations and times are text, so that
 * people and scripts need no second key. Within a version, fields are only added.
 */
export const API_VERSION = 'kube-ipvs-proxy/v1';

/** The form of every reply. `verdict` is one sentence; `ok` is whether everything it is about is as wanted. */
export interface Reply<Kind extends string> {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: Kind;
  readonly node: string;
  readonly ok: boolean;
  readonly verdict: string;
}

/** The reply to a question that cannot be answered. */
export interface ErrorReply {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: 'Error';
  readonly message: string;
}

/** One operation that would bring the kernel to the plan. */
export interface PlannedOperation {
  /** The kind of operation, such as "add-virtual-server". */
  readonly do: string;
  /** The same in the words of ipvsadm, ipset, ip, iptables or sysctl. */
  readonly command: string;
  /** "namespace/name" of the Service that needs it, where only one does. */
  readonly service?: string;
}

/** The kernel against the plan. */
export interface DifferenceReply extends Reply<'Difference'> {
  /** Whether a sync ran meanwhile: what it has not written yet is listed too. */
  readonly syncing: boolean;
  readonly operations: readonly PlannedOperation[];
  /** The number of operations beyond those listed. */
  readonly more: number;
}

/** What manifests would program on an empty node. */
export interface PlanReply extends Reply<'Plan'> {
  readonly operations: readonly PlannedOperation[];
  readonly warnings: readonly string[];
}

/** A Service on this node. */
export interface ServiceReply extends Reply<'Service'> {
  /** "namespace/name" */
  readonly service: string;
  readonly settings?: {
    readonly scheduler: string;
    readonly internalTrafficPolicy: TrafficPolicy;
    readonly externalTrafficPolicy: TrafficPolicy;
    /** Seconds for which a client stays with its endpoint; 0: no session affinity. */
    readonly affinitySeconds: number;
  };
  readonly ports: readonly PortReply[];
  /** What is ignored, refused or taken by another Service. */
  readonly notes: readonly string[];
}

export type TrafficPolicy = 'Cluster' | 'Local';

export interface PortReply {
  readonly name: string;
  readonly protocol: string;
  readonly port: number;
  readonly addresses: readonly AddressReply[];
  readonly endpoints: readonly EndpointReply[];
  readonly notes: readonly string[];
}

/** A virtual server of a Service port. */
export interface AddressReply {
  readonly use: AddressUse;
  /** Address and port. */
  readonly at: string;
  /** The number of endpoints that its clients reach. */
  readonly endpoints: number;
  readonly state: 'as planned' | 'differs' | 'belongs to another Service';
  /** The Service to which the virtual server belongs, if it is another one. */
  readonly owner?: string;
  /** What would bring the kernel to the plan. */
  readonly commands: readonly string[];
}

export type AddressUse = 'ClusterIP' | 'NodePort' | 'LoadBalancerIP' | 'ExternalIP';

export interface EndpointReply {
  readonly slice: string;
  readonly at: string;
  /** Which clients reach it: all, those of the cluster IP, those of the other addresses, or none. */
  readonly use: 'all' | 'internal' | 'external' | 'none';
  readonly why?: string;
  /** Connections that the kernel has to it now, over all addresses of the port. */
  readonly activeConnections?: number;
  readonly inactiveConnections?: number;
}

/** Whose an address and port are. */
export interface AddressOwnerReply extends Reply<'Address'> {
  readonly matches: readonly AddressMatch[];
}

export interface AddressMatch {
  readonly protocol: string;
  /** Address and port. */
  readonly at: string;
  /** `leftover`: a virtual server of ours that no Service needs; the next full check deletes it. */
  readonly is: AddressUse | 'endpoint' | 'foreign' | 'leftover';
  /** "namespace/name" of the Service, unless foreign or leftover. */
  readonly service?: string;
  /** Whether the kernel has the virtual server. */
  readonly inKernel?: boolean;
}
