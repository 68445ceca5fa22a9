/**
 * Milliseconds between two ticks: short enough to notice delays of a second, which matter. Ticks are most of what an idle
 * daemon does: at 100 ms they took 160 ms of processor time a minute, at 500 ms 37 ms.
 */
const INTERVAL = 500;

/**
 * Measures the longest delay of the event loop by how late a timer fires; the result can be up to one interval too
 * short. Does not use the histogram of Node.js, which misses delays right after a reset.
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

  /** Returns the longest delay since the last call, in seconds. */
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
