import type { REPLY_API_VERSION, TopRow, TrafficBy } from '../explain/replies.ts';
import type { ServiceRow } from '../explain/node/node-replies.ts';

/** The form of every reply about many nodes. `ok` is whether all nodes answer, and what they answer is as wanted. */
export interface FleetReply<Kind extends string> {
  readonly apiVersion: typeof REPLY_API_VERSION;
  readonly kind: Kind;
  readonly ok: boolean;
  readonly verdict: string;
  /** The number of nodes that were asked, and of those that answered. */
  readonly asked: number;
  readonly answered: number;
  readonly silent: readonly SilentNode[];
}

/** A node from which there is no answer. */
export interface SilentNode {
  readonly node: string;
  /** Absent if the node has no Pod. */
  readonly pod?: string;
  readonly why: string;
}

/** What nodes should have in common, and what one of them has otherwise. */
export interface Compared {
  /** How many nodes have each value of each property; the most frequent value first. */
  readonly properties: readonly PropertyCounts[];
  /** The nodes that differ from the others, or of which something is wrong, by name. */
  readonly differing: readonly DifferingNode[];
}

export interface PropertyCounts {
  readonly property: string;
  readonly values: readonly { readonly value: string; readonly nodes: number }[];
}

export interface DifferingNode {
  readonly node: string;
  /** In clauses, what is wrong first. */
  readonly differences: readonly string[];
}

export interface FleetStatusReply extends FleetReply<'FleetStatus'>, Compared {
  /** Nodes of the cluster that have no Pod of the DaemonSet. */
  readonly withoutPod: readonly string[];
}

export interface FleetServiceReply extends FleetReply<'FleetService'>, Compared {
  readonly service: string;
  /** What most nodes say of the Service, and how many; absent if none answers. */
  readonly usual?: { readonly verdict: string; readonly nodes: number };
  /** The number of nodes on which it is not as it should be. */
  readonly wrong: number;
}

/** The differences of a node are the operations that would bring its kernel to the plan. */
export interface FleetDifferenceReply extends FleetReply<'FleetDifference'>, Compared {}

/** The sums of all nodes that answer. */
export interface FleetTopReply extends FleetReply<'FleetTop'> {
  readonly by: TrafficBy;
  readonly rows: readonly FleetTopRow[];
  readonly more: number;
}

export interface FleetTopRow extends TopRow {
  /** The number of nodes that have the row. */
  readonly nodes: number;
  /** The node with the most new connections a second. */
  readonly busiest: string;
}

export interface FleetBundleReply extends FleetReply<'FleetBundle'> {
  /** Path of the archive. */
  readonly file: string;
  readonly bytes: number;
  /** The paths in it. */
  readonly files: readonly string[];
}

export interface FleetCheckReply extends FleetReply<'FleetCheck'> {
  readonly service: string;
  /** The number of connections that were tried. */
  readonly tried: number;
  readonly failed: readonly FailedPath[];
  /** What was not checked, and why. */
  readonly notes: readonly string[];
}

/** A connection that a node could not open. */
export interface FailedPath {
  readonly from: string;
  readonly path: 'ClusterIP' | 'external' | 'NodePort';
  /** IP:PORT */
  readonly to: string;
  readonly why: string;
}

/** The Services of all nodes that answer, those with problems first. */
export interface FleetServicesReply extends FleetReply<'FleetServices'> {
  readonly rows: readonly FleetServiceRow[];
  /** Rows of one node at most that it does not list. */
  readonly more: number;
}

/** Connections are those of all nodes. */
export interface FleetServiceRow extends Omit<ServiceRow, 'problems'> {
  /** The number of nodes that use another number of endpoints. */
  readonly otherwise: number;
  readonly problems: readonly { readonly problem: string; readonly nodes: number }[];
}
