import { MAX_NAMED } from '../../base/text/first-few.ts';
import type { IpFamily } from '../../base/ip.ts';
import type { TriggerTime } from '../../model/trigger-time.ts';
import type { Op, OpKind } from '../../state/op.ts';
import type { OpFailure } from '../../state/outcome.ts';
import { PHASES, type Transaction } from '../../state/transaction.ts';
import { NO_FINDINGS } from '../node/node-check.ts';
import type { FlowCleanUp, NodeFindings, ProgrammedChange, SyncKind, SyncReport } from '../../state/sync-report.ts';

const DELETIONS: readonly OpKind[] = [
  'unbind-address',
  'delete-route',
  'delete-real-server',
  'delete-virtual-server',
  'delete-entry',
];

/** Collects the results of one sync for its report. */
export class SyncProgress {
  readonly kind: SyncKind;
  readonly failures: OpFailure[] = [];
  /** Operations that failed in an earlier sync and that this sync attempts again. */
  readonly retried: Op[] = [];
  /** IP families that are left out, because their rules cannot be read or written, each with the reason. */
  readonly leftOut = new Map<IpFamily, unknown>();
  readonly #operations = new Map<OpKind, number>();
  readonly #named: Op[] = [];
  readonly #startedAt = performance.now();
  readonly drift: Op[] = [];
  #deletions: readonly Op[] = [];
  node: NodeFindings = NO_FINDINGS;
  programming: readonly ProgrammedChange[] = [];
  healthChecksChanged = false;
  readonly flowCleanUps: FlowCleanUp[] = [];
  error: Error | undefined;
  /** Why operations were not tried; undefined if all were. */
  stopped: string | undefined;

  constructor(kind: SyncKind) {
    this.kind = kind;
  }

  count(tx: Transaction): void {
    for (const kind of PHASES) {
      const { length } = tx.of(kind);
      if (length === 0) continue;
      this.#operations.set(kind, (this.#operations.get(kind) ?? 0) + length);
      this.#named.push(...tx.of(kind).slice(0, MAX_NAMED - this.#named.length));
    }
  }

  /** Records the leftover objects that a first sync deletes. */
  noteDeletions(tx: Transaction): void {
    this.#deletions = DELETIONS.flatMap((kind) => tx.of(kind));
  }

  inForce(triggerTimes: readonly TriggerTime[], wallNow: number): void {
    this.programming = triggerTimes.map(({ family, time }) => ({ family, durationMs: Math.max(0, wallNow - time) }));
  }

  report(draining: number): SyncReport {
    const { kind, error, failures, node, programming, healthChecksChanged, flowCleanUps } = this;
    const failed = new Set(failures.map(({ op }) => op));
    return {
      kind,
      ok: error === undefined,
      ...(error === undefined ? {} : { error }),
      durationMs: performance.now() - this.#startedAt,
      operations: this.#operations,
      named: this.#named.filter((op) => !failed.has(op)),
      failures,
      drift: this.drift.filter((op) => !failed.has(op)),
      removed: this.#deletions.filter((op) => !failed.has(op)),
      node,
      draining,
      programming,
      healthChecksChanged,
      flowCleanUps,
    };
  }
}
