import { MODES } from '../base/proxy-mode.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { Log } from '../observe/log/log.ts';
import { countsInWords, firstInWords } from '../state/op.ts';
import type { SyncReport } from '../state/sync-report.ts';

/**
 * Logs the results of syncs. At -v=2, a successful sync says in one line what it did to which objects; one without
 * operations is logged at -v=4 only. A failure that lasts is logged once; at -v=1, at each attempt.
 */
export class SyncLog {
  readonly #log: Log;
  readonly #device: string;
  /** The error of the last first sync or full check; undefined after a success. */
  #failure: string | undefined;

  constructor(log: Log, mode: Kernel['mode']) {
    this.#log = log;
    this.#device = MODES[mode].bindsAddresses ? 'interface kube-ipvs0' : 'a table kube-proxy of nf_tables';
  }

  report(report: SyncReport, nextInMs: number): void {
    const { kind, error, failures, durationMs } = report;
    const fields = {
      kind,
      ms: Math.round(durationMs),
      operations: [...report.operations.values()].reduce((sum, count) => sum + count, 0),
      failures: failures.length,
      draining: report.draining,
    };
    if (report.node.deviceMade) this.#log.warn(`${this.#device} was missing: created again`);
    if (error === undefined) {
      // A change sync in the middle of a full check does not prove that the check succeeds.
      if (kind !== 'change') this.#failure = undefined;
      logSuccess(this.#log, report, fields);
      return;
    }
    const text = `${kind} sync failed, next attempt in ${Math.ceil(nextInMs / 1_000)} s: ${error.message}`;
    if (error.message === this.#failure) this.#log.debug(1, text, fields);
    else this.#log.error(text, fields);
    this.#failure = error.message;
  }
}

interface Fields extends Readonly<Record<string, string | number>> {
  readonly operations: number;
  readonly failures: number;
}

function logSuccess(log: Log, { kind, drift, removed, named }: SyncReport, fields: Fields): void {
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
  const objects = firstInWords(named, fields.operations - fields.failures);
  log.debug(level, 'synced', objects.length > 0 ? { ...fields, objects } : fields);
}
