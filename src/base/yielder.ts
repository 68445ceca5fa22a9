import { setImmediate } from 'node:timers/promises';

/** Target time between two clock reads, in milliseconds. */
const READ_MS = 1;
/** The clock is read at least once in this number of steps: short steps do not predict how long later ones take. */
const MAX_STEPS = 32;

/**
 * Yields to the event loop during long work, so that health checks get a response during a large sync. Also needed if a
 * stream delivers data faster than it is read: its reader runs in microtasks only, so no timer fires until the stream ends. The
 * clock is not read at each step, because under some hypervisors and in an emulated kernel that is a system call of up
 * to a tenth of a millisecond.
 */
export class Yielder {
  readonly #budgetMs: number;
  #since = performance.now();
  #readAt = this.#since;
  /** Number of steps between the last clock read and the next one, and how many of them are left. */
  #steps = 1;
  #left = 1;
  #spent = false;

  constructor(budgetMs = 8) {
    this.#budgetMs = budgetMs;
  }

  /**
   * Whether the time budget is used up; stays true until yieldIfDue(). Check it after each small step, and before
   * calling yieldIfDue(): an `await` after each small step would cost as much as the step.
   */
  get due(): boolean {
    if (this.#spent) return true;
    this.#left -= 1;
    return this.#left === 0 && this.#readClock();
  }

  /** Yields to the event loop if the time budget is used up. */
  async yieldIfDue(): Promise<void> {
    if (!this.due) return;
    await setImmediate();
    this.#spent = false;
    this.#since = performance.now();
    this.#readAt = this.#since;
    this.#steps = 1;
    this.#left = 1;
  }

  /** Runs a generator to its end. At each `yield`, yields to the event loop if the time budget is used up. */
  async finish<T>(steps: Iterator<void, T>): Promise<T> {
    for (;;) {
      const { done, value } = steps.next();
      if (done === true) return value;
      if (this.due) await this.yieldIfDue();
    }
  }

  #readClock(): boolean {
    const now = performance.now();
    const stepMs = (now - this.#readAt) / this.#steps;
    this.#readAt = now;
    // At most double the number of steps: a few short steps do not predict the duration of the next ones.
    this.#steps = Math.max(1, Math.min(MAX_STEPS, 2 * this.#steps, Math.trunc(READ_MS / stepMs)));
    this.#left = this.#steps;
    this.#spent = now - this.#since >= this.#budgetMs;
    return this.#spent;
  }
}
