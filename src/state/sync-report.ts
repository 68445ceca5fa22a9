import type { IpFamily } from '../base/ip.ts';
import type { Op, OpKind } from './op.ts';
import type { OpFailure } from './outcome.ts';

/** `first` is the initial full check, which adopts existing kernel objects. */
export type SyncKind = 'first' | 'full' | 'change';

/** The result of one sync, for metrics, health and the log. */
export interface SyncReport {
  readonly kind: SyncKind;
  /** Whether the kernel could be read and written. Single operations may still have failed: see `failures`. */
  readonly ok: boolean;
  readonly error?: Error;
  readonly durationMs: number;
  readonly operations: ReadonlyMap<OpKind, number>;
  /** The first operations, as many as a log line names, without those that failed. */
  readonly named: readonly Op[];
  readonly failures: readonly OpFailure[];
  /** The repairs of a full check that no API change explains: another process modified these objects. */
  readonly drift: readonly Op[];
  /** The deletions of a first sync: objects that no Service needs. */
  readonly removed: readonly Op[];
  /** The findings of a full check; empty for other syncs. */
  readonly node: NodeFindings;
  readonly draining: number;
  readonly programming: readonly ProgrammedChange[];
  /** Whether responses or listen addresses of Service health checks may have changed. */
  readonly healthChecksChanged: boolean;
  /** Successful clean-ups of UDP flows, each for one family; empty if no endpoint of a UDP port changed. */
  readonly flowCleanUps: readonly FlowCleanUp[];
}

/** A change of endpoints that the sync put in force. */
export interface ProgrammedChange {
  /** The address family of the EndpointSlice. */
  readonly family: IpFamily;
  /** From the trigger time in the EndpointSlice to the end of the kernel writes. */
  readonly durationMs: number;
}

export interface FlowCleanUp {
  readonly family: IpFamily;
  readonly durationMs: number;
  readonly deletedFlows: number;
}

/** Receives sync results, for metrics, health and Service health checks. */
export interface SyncObserver {
  /** Called when a sync is requested. */
  queued(): void;
  finished(report: SyncReport): void;
}

/** Results of the node check. */
export interface NodeFindings {
  /** Whether kube-ipvs0 was missing and has been recreated. */
  readonly deviceMade: boolean;
  /** The error that prevents addresses from being bound to kube-ipvs0. */
  readonly deviceError: Error | undefined;
  /** Settings that another process changed and this check restored, as text. */
  readonly settingsRepaired: readonly string[];
  /** Problems that this program cannot repair, one sentence each. */
  readonly problems: readonly string[];
}
