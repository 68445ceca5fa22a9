import type { WrongSet } from '../diff/ip-set-diff.ts';
import type { IpFamily } from '../net/ip.ts';
import type { Log } from '../observe/log.ts';
import type { OpKind } from '../state/op.ts';
import type { OpFailure } from '../state/outcome.ts';

/** `first`: the full check at start, which adopts what is there. */
export type SyncKind = 'first' | 'full' | 'change';

/** What came of one sync, for metrics, health and the log. */
export interface SyncReport {
  readonly kind: SyncKind;
  /** The kernel could be read and written. Single objects may have failed all the same: they are in `failures`. */
  readonly ok: boolean;
  /** Why not. */
  readonly error?: Error;
  readonly durationMs: number;
  readonly operations: ReadonlyMap<OpKind, number>;
  readonly failures: readonly OpFailure[];
  /** Operations of a full check that no change of the API explains: somebody else's doing, undone. */
  readonly drift: ReadonlyMap<OpKind, number>;
  readonly rulesRepaired: boolean;
  readonly draining: number;
  /** How long the endpoint changes now in force took, each from when its controller says that it was made. */
  readonly programmingMs: readonly number[];
  /** An answer of a Service's health check port may be another, or be wanted at another address. */
  readonly healthChecksChanged: boolean;
  /** Clean-ups of UDP flows, one for each family; none where no endpoint of a UDP port changed. */
  readonly flowCleanUps: readonly FlowCleanUp[];
}

export interface FlowCleanUp {
  readonly family: IpFamily;
  readonly durationMs: number;
  readonly deletedFlows: number;
}

/** Who wants to know: metrics, health, service health checks. */
export interface SyncObserver {
  /** A sync was asked for. */
  queued(): void;
  finished(report: SyncReport): void;
}

/** One line a sync: loud where something was written in vain, quiet where nothing happened. */
export function logReport(log: Log, report: SyncReport, nextInMs: number): void {
  const { kind, error, failures, durationMs } = report;
  const fields = {
    kind,
    ms: Math.round(durationMs),
    operations: total(report.operations),
    failures: failures.length,
    draining: report.draining,
  };
  if (error !== undefined) {
    log.error(`${kind} sync failed, next attempt in ${Math.ceil(nextInMs / 1_000)} s: ${error.message}`, fields);
    return;
  }
  if (report.rulesRepaired) log.warn('iptables rules of ours were missing or changed by others: put back');
  if (report.drift.size > 0) {
    const drift = Array.from(report.drift, ([operation, count]) => `${count} x ${operation}`);
    log.warn('the kernel differed from the plan and was repaired: something else changes our objects', { drift });
  }
  if (kind === 'first') log.info('first sync done: this node serves', fields);
  else log.debug(fields.operations > 0 ? 2 : 4, 'synced', fields);
}

/** What only people can mend. */
export function logWrongSets(log: Log, wrongSets: readonly WrongSet[]): void {
  for (const { wanted, found } of wrongSets) {
    log.error(
      `ipset ${wanted.name} has type ${found.type}, but ${wanted.type} is needed: its entries are missing until it is ` +
        'removed with `kube-ipvs-proxy --cleanup`',
    );
  }
}

function total(counts: ReadonlyMap<OpKind, number>): number {
  let sum = 0;
  for (const count of counts.values()) sum += count;
  return sum;
}
