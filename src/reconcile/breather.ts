import { setImmediate } from 'node:timers/promises';

/** Lets the event loop turn during long work, so that health checks are answered all through a large sync. */
export class Breather {
  readonly #budgetMs: number;
  #since = performance.now();

  constructor(budgetMs = 8) {
    this.#budgetMs = budgetMs;
  }

  /** To be asked between small pieces of work, before breathe(): an `await` for each piece would cost as much as the piece. */
  get due(): boolean {
    return performance.now() - this.#since >= this.#budgetMs;
  }

  /** Lets the event loop turn if the budget is used up. */
  async breathe(): Promise<void> {
    if (!this.due) return;
    await setImmediate();
    this.#since = performance.now();
  }

  /** Runs a computation that is free of promises and says by `yield` where it may be cut. */
  async finish<T>(steps: Iterator<void, T>): Promise<T> {
    for (;;) {
      const { done, value } = steps.next();
      if (done === true) return value;
      if (this.due) await this.breathe();
    }
  }
}
