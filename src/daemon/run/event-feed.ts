import type { SourceEvent } from '../../kube/objects/source.ts';
import type { Cluster } from '../../model/cluster.ts';
import { Yielder } from '../../base/yielder.ts';

/**
 * Applies events to the cluster in order. Applies a list in steps that yield to the event loop.
 * Calls `onApplied` after each event has been applied.
 */
export class EventFeed {
  readonly #cluster: Cluster;
  readonly #onApplied: (event: SourceEvent) => void;
  readonly #waiting: SourceEvent[] = [];
  #running: Promise<void> | undefined;
  #stopped = false;

  constructor(cluster: Cluster, onApplied: (event: SourceEvent) => void) {
    this.#cluster = cluster;
    this.#onApplied = onApplied;
  }

  /** Applies a single change synchronously unless a list is still being applied. */
  take(event: SourceEvent): void {
    if (this.#stopped) return;
    if (this.#running === undefined && event.event.type !== 'replaced') {
      this.#cluster.apply(event);
      this.#onApplied(event);
      return;
    }
    this.#waiting.push(event);
    this.#running ??= this.#run();
  }

  /** Drops queued events. Resolves when the event in progress has been applied. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#waiting.length = 0;
    await this.#running;
  }

  async #run(): Promise<void> {
    const yielder = new Yielder();
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      await yielder.finish(this.#cluster.applyInSteps(next));
      this.#onApplied(next);
    }
    // No await since the queue was found empty, so no event was queued in between.
    this.#running = undefined;
  }
}
