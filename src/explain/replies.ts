import type { VirtualServerStats } from '../state/server-stats.ts';
import type { ProxyMode } from '../base/proxy-mode.ts';
import type { KnownDifference } from '../state/rules/known-difference.ts';

/**
 * The replies to the subcommands, as JSON has them (docs/explain.md). Addresses, durations and times are text, so that
 * people and scripts need no second key. Within a version, fields are only added.
 */
export const REPLY_API_VERSION = 'kube-ipvs-proxy/v1';

/** The form of every reply. `verdict` is one sentence; `ok` is whether everything it is about is as wanted. */
export interface Reply<Kind extends string> {
  readonly apiVersion: typeof REPLY_API_VERSION;
  readonly kind: Kind;
  readonly node: string;
  readonly ok: boolean;
  readonly verdict: string;
  /** Present if no daemon runs and only the kernel was read. `ok` is false then. */
  readonly kernelOnly?: true;
}

/** The reply to a question that cannot be answered. */
export interface ErrorReply {
  readonly apiVersion: typeof REPLY_API_VERSION;
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
  /** With --dry-run: the short name by which docs/differences.md explains the difference, unless it is unexpected. */
  readonly known?: KnownDifference;
}

/** The kernel against the plan. */
export interface DifferenceReply extends Reply<'Difference'> {
  /** Whether a sync ran meanwhile: what it has not written yet is listed too. */
  readonly syncing: boolean;
  readonly operations: readonly PlannedOperation[];
  /** The number of operations beyond those listed. */
  readonly more: number;
  /** Settings of the node that stop packets of Services, and that are never changed; they are no differences. */
  readonly notes: readonly string[];
  /** With --dry-run. */
  readonly shadow?: ShadowText;
}

/** The differences that a shadow found in two comparisons in a row. */
export interface ShadowText {
  readonly unexpected: number;
  /** The number of known differences, by their short names. */
  readonly known: Readonly<Partial<Record<KnownDifference, number>>>;
}

/** The operations that manifests would cause on an empty node. */
export interface PlanReply extends Reply<'Plan'> {
  readonly operations: readonly PlannedOperation[];
  readonly warnings: readonly string[];
  /** Fields that the cluster would set, planned with a placeholder. */
  readonly notes: readonly string[];
}

export interface ServiceReply extends Reply<'Service'> {
  /** "namespace/name" */
  readonly service: string;
  readonly settings?: {
    readonly scheduler: string;
    /** Flags of the scheduler, as ipvsadm names them, such as "mh-port". */
    readonly flags: readonly string[];
    readonly internalTrafficPolicy: TrafficPolicy;
    readonly externalTrafficPolicy: TrafficPolicy;
    /** Seconds for which a client stays with its endpoint; 0: no session affinity. */
    readonly affinitySeconds: number;
  };
  /** Its annotations kube-ipvs-proxy/NAME, and the operator's defaults in place of annotations; absent without either. */
  readonly annotations?: readonly AnnotationReply[];
  readonly ports: readonly PortReply[];
  /** Of its healthCheckNodePort; absent without one. */
  readonly healthChecks?: readonly HealthCheckReply[];
  /** The set entries that it needs, by set. */
  readonly sets: readonly SetReply[];
  /** Operations for it that the kernel refuses, and that are tried again. */
  readonly refused: readonly RefusedReply[];
  /**
   * The commands that would bring to the plan what all Services share on this node, such as sysctls and rules; the
   * first ten.
   */
  readonly nodeCommands?: readonly string[];
  /** When the daemon last saw a change of it or its slices; kept of 1,000 Services. */
  readonly changedAt?: string;
  /**
   * The repairs of what other programs changed of it within the last hour, if they are among the latest repairs of
   * all Services.
   */
  readonly repairs?: readonly RepairReply[];
  /** Parts of it that are ignored, or that another Service took first. */
  readonly notes: readonly string[];
}

export interface AnnotationReply {
  /** Without the prefix. */
  readonly name: string;
  readonly value: string;
  /** The place of a default in the operator's configuration; absent for an annotation of the Service. */
  readonly from?: string;
  readonly inForce: boolean;
  /** Why it is not in force. */
  readonly why?: string;
}

export interface RepairReply {
  readonly at: string;
  /** The command, or a sentence for a setting. */
  readonly command: string;
}

/** What this node answers to the health checks of load balancers, at one address and port. */
export interface HealthCheckReply {
  readonly at: string;
  /** The number of ready endpoints on this node, as planned. */
  readonly localEndpoints: number;
  /** The HTTP status that was answered: 200, or 503 if the node shall get no connections. */
  readonly status?: number;
  /** Why nothing was answered. */
  readonly why?: string;
}

export interface RefusedReply {
  readonly command: string;
  /** The errno of the last attempt, and the message of the kernel if it gave one. */
  readonly why: string;
  readonly attempts: number;
}

/** Entries of one set. `first` has at most 20, as ipset or nft writes them. */
export interface SetReply extends Listed<string> {
  readonly set: string;
  /** The effect of the entries on packets. */
  readonly does: string;
  /** The commands that would add the entries that the kernel lacks. */
  readonly commands: readonly string[];
}

export type TrafficPolicy = 'Cluster' | 'Local';

export interface PortReply {
  readonly name: string;
  readonly protocol: string;
  readonly port: number;
  readonly addresses: readonly AddressReply[];
  readonly endpoints: readonly EndpointReply[];
  /** The counters of each virtual server, then of each real server, summed over the virtual servers of the port. */
  readonly counters: readonly CountersReply[];
  /** Flows to the port that conntrack has now; only of UDP, and only if conntrack has 65,536 flows at most. */
  readonly udpFlows?: number;
  readonly notes: readonly string[];
}

/** What the kernel has counted since the virtual server (real server) was added. Incoming means towards the endpoints. */
export interface CountersReply extends VirtualServerStats {
  /** Address and port. */
  readonly at: string;
}

/** A virtual server of a Service port. */
export interface AddressReply {
  readonly use: AddressUse;
  /** Address and port. */
  readonly at: string;
  /** The number of endpoints that its clients reach. */
  readonly endpoints: number;
  readonly state: 'as planned' | 'differs' | 'belongs to another Service';
  /** How its clients are treated; absent where set entries say so. */
  readonly clients?: string;
  /** The Service to which the virtual server belongs, if it is another one. */
  readonly owner?: string;
  /** The commands that would bring the kernel to the plan. */
  readonly commands: readonly string[];
}

export type AddressUse = 'ClusterIP' | 'NodePort' | 'LoadBalancerIP' | 'ExternalIP';

export interface EndpointReply {
  readonly slice: string;
  readonly at: string;
  /** Which clients reach it: all, those of the cluster IP, those of the other addresses, or none. */
  readonly use: 'all' | 'internal' | 'external' | 'none';
  readonly why?: string;
  /** The weight that the kernel has for it: 0 while it drains. */
  readonly weight?: number;
  /** Connections that the kernel has to it now, over all addresses of the port. */
  readonly activeConnections?: number;
  readonly inactiveConnections?: number;
}

/** To which Service an address and port belong. */
export interface AddressOwnerReply extends Reply<'Address'> {
  readonly matches: readonly AddressMatch[];
}

export interface AddressMatch {
  readonly protocol: string;
  /** Address and port. */
  readonly at: string;
  /** `leftover`: a virtual server of ours that no Service needs; the next full check deletes it. */
  readonly is: AddressUse | 'endpoint' | 'foreign' | 'leftover';
  /** "namespace/name" of the Service, unless foreign or leftover. Without a daemon, it is not known. */
  readonly service?: string;
  /** Whether the kernel has the virtual server. */
  readonly inKernel?: boolean;
}

/** The path of the first packet of a connection through this node. */
export interface PacketReply extends Reply<'Packet'> {
  readonly from: string;
  readonly origin: 'this node' | 'Pod of this node' | 'Pod of another node' | 'outside';
  /** The source address of the packet: the kernel chooses it for connections of the node itself. */
  readonly source: string;
  /** Address and port. */
  readonly to: string;
  readonly protocol: string;
  /** "namespace/name" of the Service that has the virtual server, if one does. */
  readonly service?: string;
  readonly use?: AddressUse;
  /** `not served`: no virtual server of this node takes the packet. `no answer`: no endpoint's replies return. */
  readonly result: 'arrives' | 'arrives in part' | 'no answer' | 'refused' | 'dropped' | 'not served';
  /** The rules that the packet matches, and the virtual server, in order. */
  readonly steps: readonly PacketStep[];
  /** The endpoints that the scheduler may choose; the first 1,000. */
  readonly endpoints: readonly PacketEndpoint[];
  /** Rules of other programs that match or may match, and stop the packet; the first 20. */
  readonly otherRules: readonly OtherRule[];
  /** Base chains of nf_tables that packets pass and that are not looked into. */
  readonly otherChains: readonly string[];
  /** Which rules and settings of other programs were looked at, and which were not. */
  readonly lookedAt: string;
  readonly notes: readonly string[];
  /** The commands that would bring the kernel to the plan where the packet passes. */
  readonly commands: readonly string[];
}

/** A rule of another program that matches the packet, or may match: not every match can be decided here. */
export interface OtherRule {
  readonly hook: string;
  readonly table: string;
  readonly chain: string;
  /** "-P DROP" is the policy of the chain. */
  readonly rule: string;
  readonly effect: 'drops' | 'refuses' | 'redirects' | 'queues' | 'does not track';
  readonly matches: boolean;
}

export interface PacketStep {
  readonly hook: string;
  readonly table: 'mangle' | 'nat' | 'filter' | 'ipvs';
  /** Absent for the virtual server. */
  readonly chain?: string;
  /** The rule without its comment, or the virtual server. */
  readonly rule: string;
  /** "SET ENTRY" of each ipset entry that matched. */
  readonly entries: readonly string[];
  /** The packets that the rule has counted so far, of all connections. Table nat counts the first of each connection. */
  readonly packets?: number;
}

export interface PacketEndpoint {
  readonly at: string;
  /** The source address that the endpoint sees. */
  readonly sees: string;
  readonly masqueraded: boolean;
  /** Whether its replies reach the client. */
  readonly answers: boolean;
}

/** Whether a row of `top` is for a Service or an endpoint. */
export type TrafficBy = 'service' | 'endpoint';

/** The counters of IPVS, which the kernel updates every two seconds. */
export interface TrafficReply extends Reply<'Traffic'> {
  readonly by: TrafficBy;
  /** When they were read, in seconds of a clock whose differences alone have a meaning. */
  readonly readAtSeconds: number;
  /** The rows with the most connections so far; at most 5,000. */
  readonly rows: readonly TrafficRow[];
  /** The number of rows beyond those listed. */
  readonly more: number;
  /** With --ipvs-endpoint-check: endpoints that do not answer. */
  readonly silent?: Listed<SilentReply>;
}

/** The Service or endpoint that a row is for. */
export interface TrafficName {
  /** "namespace/name" of the Service; of a virtual server that no Service has, IP:PORT/PROTOCOL. */
  readonly of: string;
  /** IP:PORT/PROTOCOL; only by endpoint. */
  readonly endpoint?: string;
}

/** Sums since the virtual servers (real servers) were added. Incoming means towards the endpoints. */
export interface TrafficRow extends TrafficName, VirtualServerStats {
  /** Connections that the kernel has now. */
  readonly activeConnections: number;
  readonly inactiveConnections: number;
}

/** An endpoint that does not answer. */
export interface SilentReply {
  readonly service: string;
  /** Address and port. */
  readonly endpoint: string;
  readonly sinceSeconds: number;
  /** Whether it still gets new connections: it is only observed, or most endpoints are silent. */
  readonly used: boolean;
  /** The traffic that was counted, and the consequence, in one clause. */
  readonly why: string;
}

/** The traffic between two reads of the counters, as `top` prints it. */
export interface TopReply extends Reply<'Top'> {
  readonly by: TrafficBy;
  /** The time between the two reads. */
  readonly seconds: number;
  readonly rows: readonly TopRow[];
  readonly more: number;
  /** As of the second read. */
  readonly silent?: Listed<SilentReply>;
}

export interface TopRow extends TrafficName {
  readonly activeConnections: number;
  readonly inactiveConnections: number;
  /** Absent if a counter was reset in between, or was not listed before. */
  readonly perSecond?: VirtualServerStats;
}

/** The state of the daemon. Times are RFC 3339, durations seconds. Lists name at most 20 objects, and count all. */
export interface StatusReply extends Reply<'Status'> {
  readonly version: string;
  readonly commit: string;
  readonly startedAt: string;
  readonly uptimeSeconds: number;
  readonly mode: ProxyMode;
  readonly families: readonly string[];
  /** The variant of iptables in use. */
  readonly iptables: string;
  readonly scheduler: string;
  /** The start of a hash of all settings, but for those that each node has its own of: its name and addresses. */
  readonly configuration: string;
  /** The URL of the API server, or the directory of manifests. */
  readonly source: string;
  /** Each address of the API server, if it has several. A failure is the last one, unless it has answered since. */
  readonly apiServers: readonly {
    readonly server: string;
    readonly inUse: boolean;
    readonly answeredAt?: string;
    readonly failedAt?: string;
    readonly failure?: string;
  }[];
  /** The state of each watch of the API server, by resource. */
  readonly watches: Readonly<Record<string, string>>;
  /** Since when each watch has been "watching", or has not been: how long the API server has been connected, or not. */
  readonly watchesSince: Readonly<Record<string, string>>;
  readonly lastEventAt?: string;
  readonly syncs: {
    readonly running: boolean;
    /** The last sync of each kind; absent before the first one. */
    readonly first?: SyncText;
    readonly change?: SyncText;
    readonly full?: SyncText;
    readonly nextFullCheckInSeconds?: number;
  };
  readonly objects: {
    readonly services: number;
    readonly endpointSlices: number;
    readonly virtualServers: number;
    readonly realServers: number;
    readonly addresses: number;
    readonly setEntries: number;
  };
  /** The sets that have entries. Those of nftables mode have no capacity. */
  readonly sets: readonly { readonly name: string; readonly entries: number; readonly capacity?: number }[];
  /** Operations that the kernel refuses, and that are tried again. */
  readonly refused: Listed<RefusedReply>;
  readonly conflicts: Listed<{ readonly claimed: string; readonly owner: string; readonly loser: string }>;
  /** Parts of Services that are ignored. */
  readonly warnings: Listed<{ readonly service: string; readonly message: string }>;
  readonly draining: Listed<{
    readonly virtualServer: string;
    readonly realServer: string;
    readonly sinceSeconds: number;
  }>;
  /** With --ipvs-endpoint-check: endpoints that do not answer. */
  readonly silent?: Listed<SilentReply>;
  /** The repairs within the last hour of what other programs changed. */
  readonly repairs: Listed<RepairReply>;
  readonly conntrack?: { readonly used: number; readonly max: number };
  /** The commands that set sysctls and IPVS timeouts as wanted. */
  readonly settings: readonly string[];
  /** Settings of the node that stop packets of Services, and that are never changed. */
  readonly notes: readonly string[];
  /** The user-space engine; absent while it does not run. */
  readonly userspace?: {
    readonly listeners: number;
    /** Connections and UDP clients since it started, and those that exist. */
    readonly connections: number;
    readonly active: number;
    /** Those refused by a limit or without an endpoint, and those that ended because every endpoint failed. */
    readonly refused: number;
    readonly failed: number;
    /** Node ports at loopback addresses that could not be opened, one sentence each. */
    readonly notServed: Listed<string>;
  };
  /** Leftovers of other modes on this node, each with the reason why it is not removed yet. */
  readonly leftOfOtherModes: readonly string[];
  /** With --dry-run: the differences found last; absent before the first two comparisons. */
  readonly shadow?: ShadowText & { readonly comparedAt: string };
  readonly health: { readonly healthy: boolean; readonly reason?: string; readonly problems: readonly string[] };
}

/** The kernel of a node on which no daemon runs. */
export interface KernelStatusReply extends Reply<'KernelStatus'> {
  readonly mode: ProxyMode;
  readonly objects: {
    readonly virtualServers: number;
    readonly realServers: number;
    /** On kube-ipvs0. */
    readonly addresses: number;
    readonly setEntries: number;
  };
  /** The sets that have entries. */
  readonly sets: StatusReply['sets'];
  /** Virtual servers without a real server of positive weight, service ports without an endpoint: new connections are refused. */
  readonly unserved: Listed<string>;
  readonly conntrack?: StatusReply['conntrack'];
}

export interface Listed<T> {
  readonly count: number;
  readonly first: readonly T[];
}

/** The last sync of a kind. */
export interface SyncText {
  readonly endedAt: string;
  readonly seconds: number;
  readonly ok: boolean;
  readonly error?: string;
}
