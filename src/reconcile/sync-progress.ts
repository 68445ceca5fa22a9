import type { Op, OpKind } from '../state/op.ts';
import { countsInWords, firstInWords } from '../state/op-list.ts';
import type { OpFailure } from '../state/outcome.ts';
import { NO_FINDINGS } from './node-check.ts';
import type { FlowCleanUp, NodeFindings, SyncKind, SyncReport } from '../state/sync-report.ts';

const DELETIONS: ReadonlySet<OpKind> = new Set<OpKind>([
  'unbind-address',
  'delete-route',
  'delete-real-server',
  'delete-virtual-server',
  'delete-entry',
]);

/** Collects the results of one sync for its report. */
export class SyncProgress {
  readonly kind: SyncKind;
  readonly failures: OpFailure[] = [];
  /** Operations that failed in an earlier sync and that this sync attempts again. */
  readonly retried: Op[] = [];
  readonly #operations = new Map<OpKind, number>();
  readonly #startedAt = performance.now();
  readonly drift: Op[] = [];
  #deletions: readonly Op[] = [];
  node: NodeFindings = NO_FINDINGS;
  programmingMs: readonly number[] = [];
  healthChecksChanged = false;
  readonly flowCleanUps: FlowCleanUp[] = [];
  error: Error | undefined;

  constructor(kind: SyncKind) {
    this.kind = kind;
  }

  count(ops: readonly Op[]): void {
    countByKind(ops, this.#operations);
  }

  /** Records the leftover objects that a first sync deletes. */
  noteDeletions(ops: readonly Op[]): void {
    this.#deletions = ops.filter(({ kind }) => DELETIONS.has(kind));
  }

  /** @param triggerTimes when the changes were made, in ms since 1970; the clock that set them may be ahead */
  inForce(triggerTimes: readonly number[], wallNow: number): void {
    this.programmingMs = triggerTimes.map((time) => Math.max(0, wallNow - time));
  }

  report(draining: number): SyncReport {
    const { kind, error, failures, node, programmingMs, healthChecksChanged, flowCleanUps } = this;
    const failed = new Set(failures.map(({ op }) => op));
    const drift = this.drift.filter((op) => !failed.has(op));
    const removed = this.#deletions.filter((op) => !failed.has(op));
    return {
      kind,
      ok: error === undefined,
      ...(error === undefined ? {} : { error }),
      durationMs: performance.now() - this.#startedAt,
      operations: this.#operations,
      failures,
      drift: countByKind(drift, new Map()),
      repaired: firstInWords(drift),
      removed: { counts: countsInWords(removed), objects: firstInWords(removed) },
      node,
      draining,
      programmingMs,
      healthChecksChanged,
      flowCleanUps,
    };
  }
}

function countByKind(ops: readonly Op[], counts: Map<OpKind, number>): Map<OpKind, number> {
  let start = 0;
  // Operations of one kind are mostly adjacent.
  for (let end = 1; end <= ops.length; end++) {
    const kind = ops[start]?.kind;
    if (kind === undefined || ops[end]?.kind === kind) continue;
    counts.set(kind, (counts.get(kind) ?? 0) + end - start);
    start = end;
  }
  return counts;
}
