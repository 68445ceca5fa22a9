/** A timer this often, in milliseconds, is enough to see every delay that matters, and wakes an idle node seldom. */
const INTERVAL = 100;

/**
 * How long the event loop was held up at most, seen by how late a timer is: shorter by up to one interval than the truth. Node's own
 * histogram of delays is not used: it forgets what happens right after a reset.
 */
export class EventLoopLag {
  #timer: NodeJS.Timeout | undefined;
  #lastTick = 0;
  #max = 0;

  start(): void {
    this.#lastTick = performance.now();
    this.#timer = setInterval(() => this.#tick(), INTERVAL);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Seconds; the measure begins anew. */
  takeMax(): number {
    const max = this.#max;
    this.#max = 0;
    return max / 1000;
  }

  #tick(): void {
    const now = performance.now();
    this.#max = Math.max(this.#max, now - this.#lastTick - INTERVAL);
    this.#lastTick = now;
  }
}
