import { doublingDelay } from '../../base/timer.ts';
import type { Flow, Kernel } from '../../kernel/kernel.ts';
import type { Yielder } from '../../base/yielder.ts';
import { type IpFamily, familyOf } from '../../base/ip.ts';
import type { Log } from '../../observe/log/log.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import type { PlannedUdp } from '../../plan/service-plan.ts';
import { type RealServerKey, realServerKey } from '../../state/real-server.ts';
import type { Transaction } from '../../state/transaction.ts';
import { type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import type { Clock } from '../timing/clock.ts';
import type { FlowCleanUp } from '../../state/sync-report.ts';

/** Number of flows processed between two yields. */
const STRIDE = 256;

/**
 * Returns the stale UDP flows: those to a virtual server of ours that no serving endpoint of it answers, and all to one that
 * was removed. They are translated to a removed pod, or not translated at all. (The latter began while the service had no
 * endpoint.) They lose their packets as long as they live, which is as long as the client sends. Address and port must match
 * exactly, so flows to other ports, and to addresses that never were ours, are kept. The cost grows with the number of flows.
 *
 * @param answeringAt as in NodePlan
 * @param removed the UDP virtual servers that were deleted
 */
export function* staleFlows(
  flows: Iterable<Flow>,
  answeringAt: AnsweringAt,
  removed: ReadonlySet<VirtualServerKey>,
): Generator<void, Flow[]> {
  const known = new Map<VirtualServerKey, ReadonlySet<RealServerKey> | undefined>();
  const stale: Flow[] = [];
  let count = 0;
  for (const flow of flows) {
    if (++count % STRIDE === 0) yield;
    const key = virtualServerKey({
      address: flow.destination,
      port: flow.destinationPort,
      protocol: flow.protocol,
    });
    if (!known.has(key)) known.set(key, endpointKeys(answeringAt(key)));
    const answering = known.get(key);
    const answers = realServerKey({ address: flow.replySource, port: flow.replySourcePort });
    if (answering === undefined ? removed.has(key) : !answering.has(answers)) stale.push(flow);
  }
  return stale;
}

function endpointKeys(answering: PlannedUdp['answering'] | undefined): ReadonlySet<RealServerKey> | undefined {
  return answering === undefined ? undefined : new Set(answering.map(realServerKey));
}

type AnsweringAt = ReturnType<NodePlan['answering']>;

const REAL_SERVER_PHASES = ['add-real-server', 'edit-real-server', 'delete-real-server'] as const;

/** A family whose flows need a clean-up. */
interface Due {
  readonly at: number;
  readonly attempts: number;
  /** The UDP virtual servers that were deleted since the last clean-up that succeeded. */
  readonly removed: Set<VirtualServerKey>;
}

export interface UdpCleanUpOptions {
  readonly kernel: Pick<Kernel, 'getUdpFlows' | 'deleteFlows'>;
  readonly families: readonly IpFamily[];
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
  /** Maximum delay between two attempts. */
  readonly maxDelayMs: number;
  /** As in NodePlan. */
  readonly answering: () => AnsweringAt;
}

/**
 * Remembers which families need a clean-up of UDP flows until it has succeeded, because no full check would repair a
 * flow to a removed pod, and which virtual servers were deleted, because the plan no longer has these. Failed clean-ups are
 * retried with back-off.
 */
export class UdpCleanUp {
  readonly #options: UdpCleanUpOptions;
  readonly #due = new Map<IpFamily, Due>();

  constructor(options: UdpCleanUpOptions) {
    this.#options = options;
  }

  /** Time of the next clean-up, in ms of the monotonic clock; Infinity if none is due. */
  get dueAt(): number {
    let soonest = Infinity;
    for (const { at } of this.#due.values()) soonest = Math.min(soonest, at);
    return soonest;
  }

  /** Makes the clean-up of every family due, because any UDP endpoint may have changed. */
  noteAll(): void {
    for (const family of this.#options.families) this.#note(family);
  }

  /** Makes the clean-up due for each family with UDP operations. Must be called before these are applied. */
  note(tx: Transaction): void {
    for (const phase of REAL_SERVER_PHASES) {
      for (const { id } of tx.of(phase)) if (id.protocol === 'UDP') this.#note(familyOf(id.address));
    }
    for (const { id } of tx.of('delete-virtual-server')) {
      if (id.protocol === 'UDP') this.#note(familyOf(id.address)).removed.add(virtualServerKey(id));
    }
  }

  /** Runs the clean-ups that are due; a family that fails stays due. */
  async run(yielder: Yielder): Promise<FlowCleanUp[]> {
    const done: FlowCleanUp[] = [];
    for (const [family, due] of this.#due) {
      if (due.at > this.#options.clock.now()) continue;
      try {
        done.push(await this.#clean(family, due, yielder));
        // It may have become due again meanwhile.
        if (this.#due.get(family) === due) this.#due.delete(family);
      } catch (error) {
        this.#failed(family, due, error);
      }
    }
    return done;
  }

  #note(family: IpFamily): Due {
    const { attempts, removed } = this.#due.get(family) ?? { attempts: 0, removed: new Set() };
    const due = { at: -Infinity, attempts, removed };
    this.#due.set(family, due);
    return due;
  }

  async #clean(family: IpFamily, { removed }: Due, yielder: Yielder): Promise<FlowCleanUp> {
    const { kernel, answering } = this.#options;
    const startedAt = performance.now();
    const stale = await yielder.finish(staleFlows(await kernel.getUdpFlows(family), answering(), removed));
    const deletedFlows = stale.length === 0 ? 0 : await kernel.deleteFlows(stale);
    return { family, durationMs: performance.now() - startedAt, deletedFlows };
  }

  #failed(family: IpFamily, due: Due, error: unknown): void {
    const { clock, log, maxDelayMs } = this.#options;
    const attempts = due.attempts + 1;
    const delay = doublingDelay(attempts, maxDelayMs);
    this.#due.set(family, { at: clock.now() + delay, attempts, removed: due.removed });
    const message = `failed to delete IPv${family} UDP flows to removed endpoints, next attempt in ${Math.ceil(delay / 1_000)} s: ${String(error)}`;
    if (attempts === 1) log.warn(message);
    else log.debug(2, message, { attempts });
  }
}
