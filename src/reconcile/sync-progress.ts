import type { Op, OpKind } from '../state/op.ts';
import type { OpFailure } from '../state/outcome.ts';
import type { FlowCleanUp, SyncKind, SyncReport } from './sync-report.ts';

/** What one sync gathers on its way, for its report. */
export class SyncProgress {
  readonly kind: SyncKind;
  readonly failures: OpFailure[] = [];
  readonly #operations = new Map<OpKind, number>();
  readonly #startedAt = performance.now();
  drift: readonly Op[] = [];
  rulesRepaired = false;
  triggerTimes: readonly number[] = [];
  healthChecksChanged = false;
  readonly flowCleanUps: FlowCleanUp[] = [];
  error: Error | undefined;

  constructor(kind: SyncKind) {
    this.kind = kind;
  }

  count(ops: readonly Op[]): void {
    countByKind(ops, this.#operations);
  }

  report(draining: number): SyncReport {
    const { kind, error, failures, rulesRepaired, triggerTimes, healthChecksChanged, flowCleanUps } = this;
    return {
      kind,
      ok: error === undefined,
      ...(error === undefined ? {} : { error }),
      durationMs: performance.now() - this.#startedAt,
      operations: this.#operations,
      failures,
      drift: countByKind(this.drift, new Map()),
      rulesRepaired,
      draining,
      triggerTimes,
      healthChecksChanged,
      flowCleanUps,
    };
  }
}

function countByKind(ops: readonly Op[], counts: Map<OpKind, number>): Map<OpKind, number> {
  let start = 0;
  // Those of one kind stand together, almost always.
  for (let end = 1; end <= ops.length; end++) {
    const kind = ops[start]?.kind;
    if (kind === undefined || ops[end]?.kind === kind) continue;
    counts.set(kind, (counts.get(kind) ?? 0) + end - start);
    start = end;
  }
  return counts;
}
