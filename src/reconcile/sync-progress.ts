import type { Op, OpKind } from '../state/op.ts';
import type { OpFailure } from '../state/outcome.ts';
import type { FlowCleanUp, SyncKind, SyncReport } from './sync-report.ts';

/** What one sync gathers on its way, for its report. */
export class SyncProgress {
  readonly kind: SyncKind;
  readonly failures: OpFailure[] = [];
  readonly #operations = new Map<OpKind, number>();
  readonly #startedAt = performance.now();
  readonly drift: Op[] = [];
  rulesRepaired = false;
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

  /** @param triggerTimes when the changes were made, in the milliseconds of `now`; somebody else's clock may be ahead */
  inForce(triggerTimes: readonly number[], now: number): void {
    this.programmingMs = triggerTimes.map((time) => Math.max(0, now - time));
  }

  report(draining: number): SyncReport {
    const { kind, error, failures, rulesRepaired, programmingMs, healthChecksChanged, flowCleanUps } = this;
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
      programmingMs,
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
