import type { REPLY_API_VERSION } from '../explain/replies.ts';

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
