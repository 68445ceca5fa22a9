import type { Log } from '../observe/log.ts';
import type { OpKind } from '../state/op.ts';
import type { SyncReport } from '../state/sync-report.ts';

/** Logs the result of one sync. A successful sync without operations is logged at -v=4 only. */
export function logReport(log: Log, report: SyncReport, nextInMs: number): void {
  const { kind, error, failures, durationMs } = report;
  const fields = {
    kind,
    ms: Math.round(durationMs),
    operations: total(report.operations),
    failures: failures.length,
    draining: report.draining,
  };
  if (report.node.deviceMade) log.warn('interface kube-ipvs0 was missing: created again');
  if (error !== undefined) {
    log.error(`${kind} sync failed, next attempt in ${Math.ceil(nextInMs / 1_000)} s: ${error.message}`, fields);
    return;
  }
  if (report.drift.size > 0) {
    const drift = Array.from(report.drift, ([operation, count]) => `${count} x ${operation}`);
    log.warn('kernel state differed from the plan and was repaired: another process modifies these objects', {
      drift,
      objects: report.repaired,
    });
  }
  if (report.removed.counts.length > 0) {
    const { counts, objects } = report.removed;
    log.info('deleted leftovers of an earlier run or of another proxy', { deleted: counts, objects });
  }
  if (kind === 'first') log.info('initial sync complete: this node serves traffic', fields);
  else log.debug(fields.operations > 0 ? 2 : 4, 'synced', fields);
}

function total(counts: ReadonlyMap<OpKind, number>): number {
  let sum = 0;
  for (const count of counts.values()) sum += count;
  return sum;
}
