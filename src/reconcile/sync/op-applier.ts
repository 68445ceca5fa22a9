import type { Yielder } from '../../base/yielder.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Log } from '../../observe/log/log.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import { type OpFailure, type Outcome, formatFailure } from '../../state/outcome.ts';
import type { Transaction } from '../../state/transaction.ts';
import type { Clock } from '../timing/clock.ts';
import { applyGuarded } from '../guard/deny-guard.ts';
import type { RetryQueue } from './retry-queue.ts';
import type { SyncProgress } from './sync-progress.ts';
import type { UdpCleanUp } from './udp-clean-up.ts';

/** Maximum number of operations of one transaction whose first failure is logged on a line of its own. */
const MOST_LOGGED = 20;

export interface OpApplierOptions {
  readonly kernel: Kernel;
  readonly plan: NodePlan;
  readonly retries: RetryQueue;
  readonly udp: UdpCleanUp;
  readonly clock: Clock;
  readonly log: Log;
  /** Called when an operation failed because kube-ipvs0 does not exist. */
  readonly onDeviceMissing: () => void;
}

/** Applies and counts operations. Logs failed operations and queues them for a retry. */
export class OpApplier {
  readonly #options: OpApplierOptions;

  constructor(options: OpApplierOptions) {
    this.#options = options;
  }

  /** `isExpected` tells which failures the caller handles itself. */
  async apply(
    tx: Transaction,
    progress: SyncProgress,
    yielder: Yielder,
    isExpected: (failure: OpFailure) => boolean = () => false,
  ): Promise<Outcome> {
    if (tx.size === 0) return { failures: [] };
    const { kernel, plan, udp } = this.#options;
    progress.count(tx);
    await yielder.yieldIfDue();
    udp.note(tx);
    await yielder.yieldIfDue();
    const outcome = await applyGuarded(kernel, plan, tx, { withdraw: true });
    await this.note(
      outcome.failures.filter((failure) => !isExpected(failure)),
      progress,
      yielder,
    );
    progress.stopped ??= outcome.stopped;
    return outcome;
  }

  /** Logs, reports and queues failures. The full check also passes failures of operations that it applied itself. */
  async note(failures: readonly OpFailure[], progress: SyncProgress, yielder: Yielder): Promise<void> {
    const { clock, log, retries, onDeviceMissing } = this.#options;
    let isNew = 0;
    for (const failure of failures) {
      progress.failures.push(failure);
      if (failure.code === 'ENODEV') onDeviceMissing();
      if (!retries.failed(failure, clock.now())) {
        const attempts = retries.attempts(failure.op);
        log.debug(2, `the kernel refused ${formatFailure(failure)} again`, { attempts });
      } else if (++isNew <= MOST_LOGGED) {
        log.error(`the kernel refused ${formatFailure(failure)}; retrying`);
      }
      await yielder.yieldIfDue();
    }
    if (isNew > MOST_LOGGED) {
      log.error(
        `the kernel refused ${isNew - MOST_LOGGED} more operations; retrying. \`kube-ipvs-proxy status\` names them`,
      );
    }
  }
}
