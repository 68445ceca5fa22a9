import { doublingDelay } from '../base/backoff.ts';
import type { Flow, Kernel } from '../kernel/kernel.ts';
import type { Yielder } from '../base/yielder.ts';
import { type IpFamily, familyOf } from '../base/ip.ts';
import type { Log } from '../observe/log.ts';
import type { PlannedUdp } from '../plan/service-plan.ts';
import { type RealServerKey, realServerKey } from '../state/real-server.ts';
import type { Transaction } from '../state/transaction.ts';
import { type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';
import type { Clock } from './clock.ts';
import type { FlowCleanUp } from '../state/sync-report.ts';

/** Number of flows processed between two yields. */
const STRIDE = 256;

/**
 * Returns the stale UDP flows to our virtual servers: those translated to a removed pod, and those not translated at
 * all. (The latter began while the service had no endpoint, and lose their packets as long as they live.) As in
 * kube-proxy's conntrack reconciler, flows of a virtual server without endpoints are kept. Address and port must match
 * exactly, so flows to other ports are kept. The cost grows with the number of flows.
 */
export function* staleFlows(
  flows: Iterable<Flow>,
  answeringAt: (key: VirtualServerKey) => PlannedUdp['answering'],
): Generator<void, Flow[]> {
  const known = new Map<VirtualServerKey, ReadonlySet<RealServerKey>>();
  const stale: Flow[] = [];
  let count = 0;
  for (const flow of flows) {
    if (++count % STRIDE === 0) yield;
    const key = virtualServerKey({
      address: flow.destination,
      port: flow.destinationPort,
      protocol: flow.protocol,
    });
    let answering = known.get(key);
    if (answering === undefined) known.set(key, (answering = new Set(answeringAt(key).map(realServerKey))));
    const answers = realServerKey({ address: flow.replySource, port: flow.replySourcePort });
    if (answering.size > 0 && !answering.has(answers)) stale.push(flow);
  }
  return stale;
}

export interface UdpCleanUpOptions {
  readonly kernel: Pick<Kernel, 'getUdpFlows' | 'deleteFlows'>;
  readonly families: readonly IpFamily[];
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
  /** Maximum delay between two attempts. */
  readonly maxDelayMs: number;
  /** As in NodePlan. */
  readonly answering: () => (key: VirtualServerKey) => PlannedUdp['answering'];
}

/**
 * Remembers which families need a clean-up of UDP flows until it has succeeded, because no full check would repair a
 * flow to a removed pod. Failed clean-ups are retried with back-off.
 */
export class UdpCleanUp {
  readonly #options: UdpCleanUpOptions;
  readonly #due = new Map<IpFamily, { readonly at: number; readonly attempts: number }>();

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
    for (const op of tx) if ('id' in op && op.id.protocol === 'UDP') this.#note(familyOf(op.id.address));
  }

  /** Runs the clean-ups that are due; a family that fails stays due. */
  async run(yielder: Yielder): Promise<FlowCleanUp[]> {
    const done: FlowCleanUp[] = [];
    for (const [family, due] of this.#due) {
      if (due.at > this.#options.clock.now()) continue;
      try {
        done.push(await this.#clean(family, yielder));
        // It may have become due again meanwhile.
        if (this.#due.get(family) === due) this.#due.delete(family);
      } catch (error) {
        this.#failed(family, due.attempts + 1, error);
      }
    }
    return done;
  }

  #note(family: IpFamily): void {
    const attempts = this.#due.get(family)?.attempts ?? 0;
    this.#due.set(family, { at: -Infinity, attempts });
  }

  async #clean(family: IpFamily, yielder: Yielder): Promise<FlowCleanUp> {
    const { kernel, answering } = this.#options;
    const startedAt = performance.now();
    const stale = await yielder.finish(staleFlows(await kernel.getUdpFlows(family), answering()));
    const deletedFlows = stale.length === 0 ? 0 : await kernel.deleteFlows(stale);
    return { family, durationMs: performance.now() - startedAt, deletedFlows };
  }

  #failed(family: IpFamily, attempts: number, error: unknown): void {
    const { clock, log, maxDelayMs } = this.#options;
    const delay = doublingDelay(attempts, maxDelayMs);
    this.#due.set(family, { at: clock.now() + delay, attempts });
    const message = `failed to delete IPv${family} UDP flows to removed endpoints, next attempt in ${Math.ceil(delay / 1_000)} s: ${String(error)}`;
    if (attempts === 1) log.warn(message);
    else log.debug(2, message, { attempts });
  }
}
