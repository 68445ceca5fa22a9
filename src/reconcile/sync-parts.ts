import type { Cidr } from '../base/cidr.ts';
import type { DrainLedger } from '../diff/drain.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { Log } from '../observe/log.ts';
import type { PlanConfig } from '../plan/plan-config.ts';
import type { Bootstrap } from './bootstrap.ts';
import type { SetSizes } from './change-sync.ts';
import type { Clock } from './clock.ts';
import type { DesiredState } from './desired-state.ts';
import type { Draining } from './draining.ts';
import type { InterfaceAddresses } from './interface-addresses.ts';
import type { NodeCheck } from './node-check.ts';
import type { OpApplier } from './op-applier.ts';
import type { RestrictedGate } from './restricted-gate.ts';
import type { RetryQueue } from './retry-queue.ts';
import type { RuleKeeper } from './rule-keeper.ts';
import type { Schedule } from './schedule.ts';
import type { UdpCleanUp } from './udp-clean-up.ts';

/** State and helpers that all kinds of sync share. */
export interface SyncParts {
  readonly kernel: Kernel;
  readonly config: PlanConfig;
  /** Virtual servers at these addresses are never modified. */
  readonly excluded: readonly Cidr[];
  readonly clock: Clock;
  readonly log: Log;
  readonly desired: DesiredState;
  readonly addresses: InterfaceAddresses;
  readonly bootstrap: Bootstrap;
  readonly rules: RuleKeeper;
  readonly gate: RestrictedGate;
  readonly nodeCheck: NodeCheck;
  readonly applier: OpApplier;
  readonly retries: RetryQueue;
  readonly ledger: DrainLedger;
  readonly draining: Draining;
  readonly udp: UdpCleanUp;
  readonly schedule: Schedule;
  readonly sizes: SetSizes;
  /** Runs a change sync if one is due. */
  readonly runPendingChanges: () => Promise<void>;
  /** Waits for `work`, and runs change syncs that become due meanwhile. */
  readonly awaitWhileServing: <T>(work: Promise<T>) => Promise<T>;
}
