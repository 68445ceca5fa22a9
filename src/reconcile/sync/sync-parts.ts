import type { Cidr } from '../../base/cidr.ts';
import { addingOrder } from '../../diff/adding-order.ts';
import { DrainLedger } from '../../diff/drain.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { SetKey } from '../../plan/node/node-plan.ts';
import type { VirtualServerKey } from '../../state/virtual-server.ts';
import { Bootstrap } from './bootstrap.ts';
import type { Clock } from '../timing/clock.ts';
import { DesiredState, type DesiredStateOptions } from '../desired/desired-state.ts';
import { InterfaceAddresses } from '../desired/interface-addresses.ts';
import { KnownServers } from '../../diff/known-servers.ts';
import { NodeCheck } from '../node/node-check.ts';
import { NO_SETTINGS, type NodeSettings } from '../node/node-settings.ts';
import { OpApplier } from './op-applier.ts';
import { RestrictedGate } from '../guard/restricted-gate.ts';
import { RetryQueue } from './retry-queue.ts';
import { type OnRulesRepaired, RuleKeeper } from '../node/rule-keeper.ts';
import { Schedule } from '../timing/schedule.ts';
import { SchedulerCheck } from '../desired/scheduler-check.ts';
import { VerifiedState } from './verified-state.ts';
import { UdpCleanUp } from './udp-clean-up.ts';
import { WarningLog } from '../desired/warning-log.ts';

export interface SyncPartsOptions extends DesiredStateOptions {
  readonly kernel: Kernel;
  /** Virtual servers at these addresses are never modified. */
  readonly excludeCidrs: readonly Cidr[];
  readonly syncPeriodMs: number;
  /** The node settings that each full check restores; undefined if there are none. */
  readonly nodeSettings?: NodeSettings;
  /** 0 means no deadline: a real server drains until its last connection ends. */
  readonly drainTimeoutMs: number;
  readonly clock: Clock;
  /** A change reads the real servers of a virtual server that has at most so many; by default a few. */
  readonly readUpTo?: number;
  /** Called when iptables rules that another process removed or changed were restored. */
  readonly onRulesRepaired?: OnRulesRepaired;
}

/** What the parts need from the SyncTimer. */
interface Timing {
  readonly requestChange: () => void;
  readonly runPendingChanges: () => Promise<void>;
  /** Waits for `work`, and runs change syncs that become due meanwhile. */
  readonly awaitWhileServing: <T>(work: Promise<T>) => Promise<T>;
}

/** State and helpers that all kinds of sync share. */
export type SyncParts = ReturnType<typeof syncParts>;

export function syncParts(options: SyncPartsOptions, { requestChange, ...timing }: Timing) {
  const { kernel, clock, log, plan: config, syncPeriodMs, drainTimeoutMs, nodeSettings = NO_SETTINGS } = options;
  const schedulers = new SchedulerCheck(kernel);
  const desired = new DesiredState({ ...options, schedulers, warningLog: new WarningLog(log, clock) });
  const { plan } = desired;
  const addresses = new InterfaceAddresses(kernel, desired);
  const schedule = new Schedule(clock, syncPeriodMs);
  const retries = new RetryQueue(syncPeriodMs);
  const order = addingOrder(config);
  const ledger = new DrainLedger(drainTimeoutMs);
  const known = new KnownServers(kernel.mode, ledger, (id) => retries.isFailing(id), options.readUpTo);
  const written = new Set<VirtualServerKey>();
  const answering = () => plan.answering();
  const udp = new UdpCleanUp({ kernel, families: config.families, clock, log, maxDelayMs: syncPeriodMs, answering });
  const rules = new RuleKeeper({
    ...options,
    onRulesRepaired: (family, chains) => {
      // Flows that began while rules were missing are not translated, and their packets are lost as long as they live.
      if (plan.servesUdp) {
        udp.noteAll();
        requestChange();
      }
      options.onRulesRepaired?.(family, chains);
    },
    onConfirmed: (ids) => {
      gate.open(ids, plan);
      requestChange();
    },
  });
  const gate = new RestrictedGate(rules, log);
  // A full check recreates the device.
  const onDeviceMissing = (): void => schedule.requireFullCheck(1_000);
  return {
    ...timing,
    kernel,
    config,
    excluded: options.excludeCidrs,
    clock,
    /** When the program started, in ms of the monotonic clock. */
    startedAt: clock.now(),
    log,
    desired,
    addresses,
    bootstrap: new Bootstrap({ kernel, plan: config, desired, addresses, order, written, log }),
    rules,
    gate,
    nodeCheck: new NodeCheck(kernel, nodeSettings, log),
    applier: new OpApplier({ kernel, plan, retries, udp, clock, log, onDeviceMissing }),
    retries,
    order,
    ledger,
    known,
    udp,
    schedule,
    verified: new VerifiedState(kernel, clock),
    /** The capacity (maxelem) of each set, as of the last full check or of a later change that enlarged the set. */
    sizes: new Map<SetKey, number>(),
    /** Virtual servers written or deleted before a first sync succeeded: ours, even without the evidence of Ownership. */
    written,
  };
}
