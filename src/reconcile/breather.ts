import { setImmediate } from 'node:timers/promises';

/** Lets the event loop turn during long work, so that health checks are answered all through a large sync. */
export class Breather {
  readonly #budgetMs: number;
  #since = performance.now();

  constructor(budgetMs = 8) {
    this.#budgetMs = budgetMs;
  }

  /** To be awaited between small pieces of work; costs nothing until the budget is used up. */
  breathe(): Promise<void> | undefined {
    return performance.now() - this.#since < this.#budgetMs ? undefined : this.#pause();
  }

  /** Runs a computation that is free of promises and says by `yield` where it may be cut. */
  async finish<T>(steps: Iterator<void, T>): Promise<T> {
    for (;;) {
      const { done, value } = steps.next();
      if (done === true) return value;
      const pause = this.breathe();
      if (pause !== undefined) await pause;
    }
  }

  async #pause(): Promise<void> {
    await setImmediate();
    this.#since = performance.now();
  }
}
