import { setImmediate } from 'node:timers/promises';
import { Pace } from './pace.ts';

/**
 * Yields to the event loop during long work, so that health checks get a response during a large sync. Also needed if a
 * stream delivers data faster than it is read: its reader runs in microtasks only, so no timer fires until it ends.
 */
export class Yielder {
  readonly #pace: Pace;

  constructor(budgetMs = 8) {
    this.#pace = new Pace(budgetMs);
  }

  /** Check this before calling yieldIfDue(): an `await` after each small step would cost as much as the step. */
  get due(): boolean {
    return this.#pace.due;
  }

  /** Yields to the event loop if the time budget is used up. */
  async yieldIfDue(): Promise<void> {
    if (!this.due) return;
    await setImmediate();
    this.#pace.renew();
  }

  /** Runs a generator to its end. At each `yield`, yields to the event loop if the time budget is used up. */
  async finish<T>(steps: Iterator<void, T>): Promise<T> {
    for (;;) {
      const { done, value } = steps.next();
      if (done === true) return value;
      if (this.due) await this.yieldIfDue();
    }
  }
}
