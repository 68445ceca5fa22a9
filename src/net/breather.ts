import { setImmediate } from 'node:timers/promises';
import { Pace } from './pace.ts';

/**
 * Lets the event loop turn during long work, so that health checks are answered all through a large sync. A stream that comes faster
 * than it is read needs that too: it keeps its reader in microtasks, and no timer fires until it ends.
 */
export class Breather {
  readonly #pace: Pace;

  constructor(budgetMs = 8) {
    this.#pace = new Pace(budgetMs);
  }

  /** To be asked between small pieces of work, before breathe(): an `await` for each piece would cost as much as the piece. */
  get due(): boolean {
    return this.#pace.due;
  }

  /** Lets the event loop turn if the budget is used up. */
  async breathe(): Promise<void> {
    if (!this.due) return;
    await setImmediate();
    this.#pace.renew();
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
