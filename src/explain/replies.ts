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
