import { monitorEventLoopDelay } from 'node:perf_hooks';

/** A timer this often, in milliseconds, is enough to see every delay that matters, and wakes an idle node seldom. */
const RESOLUTION = 100;

/** How long the event loop was held up at most: what it costs others that we compute. */
export class EventLoopLag {
  readonly #histogram = monitorEventLoopDelay({ resolution: RESOLUTION });

  start(): void {
    this.#histogram.enable();
  }

  stop(): void {
    this.#histogram.disable();
  }

  /** Seconds; the measure begins anew. */
  takeMax(): number {
    // The histogram holds the time between two ticks of its timer, in nanoseconds.
    const max = this.#histogram.max / 1e9 - RESOLUTION / 1000;
    this.#histogram.reset();
    return Math.max(0, max);
  }
}
