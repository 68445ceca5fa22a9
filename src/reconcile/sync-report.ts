import type { Log } from '../observe/log.ts';
import { countsInWords, firstInWords } from '../state/op.ts';
import type { SyncReport } from '../state/sync-report.ts';

/**
 * Logs the result of one sync. At -v=2, a successful sync says in one line what it did to which objects; one without
 * operations is logged at -v=4 only.
 */
export function logReport(log: Log, report: SyncReport, nextInMs: number): void {
  const { kind, error, failures, durationMs, drift, removed } = report;
  const fields = {
    kind,
    ms: Math.round(durationMs),
    operations: [...report.operations.values()].reduce((sum, count) => sum + count, 0),
    failures: failures.length,
    draining: report.draining,
  };
  if (report.node.deviceMade) log.warn('interface kube-ipvs0 was missing: created again');
  if (error !== undefined) {
    log.error(`${kind} sync failed, next attempt in ${Math.ceil(nextInMs / 1_000)} s: ${error.message}`, fields);
    return;
  }
  if (drift.length > 0) {
    log.warn('kernel state differed from the plan and was repaired: another process modifies these objects', {
      drift: countsInWords(drift),
      objects: firstInWords(drift),
    });
  }
  if (removed.length > 0) {
    log.info('deleted leftovers of an earlier run or of another proxy', {
      deleted: countsInWords(removed),
      objects: firstInWords(removed),
    });
  }
  if (kind === 'first') {
    log.info('initial sync complete: this node serves traffic', fields);
    return;
  }
  const level = fields.operations > 0 ? 2 : 4;
  if (!log.enabled(level)) return;
  const objects = firstInWords(report.named, fields.operations - fields.failures);
  log.debug(level, 'synced', objects.length > 0 ? { ...fields, objects } : fields);
}
