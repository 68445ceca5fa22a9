import type { SourceEvent } from '../kube/source.ts';
import type { Cluster } from '../model/cluster.ts';
import { Breather } from '../net/breather.ts';

/**
 * Hands events to the cluster in their order, a list in slices: while ten thousand objects are taken in, the event loop still turns.
 * `onApplied` is called after each event, when it is in force.
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

  /** A single change that need not wait for a list is applied before this returns. */
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

  /** What still waits is dropped; resolves when the list under way is in. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#waiting.length = 0;
    await this.#running;
  }

  async #run(): Promise<void> {
    const breather = new Breather();
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      await breather.finish(this.#cluster.applyInSteps(next));
      this.#onApplied(next);
    }
    // In the same turn as the last look at what waits: nothing can come in between.
    this.#running = undefined;
  }
}
