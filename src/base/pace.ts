/** Target time between two clock reads, in milliseconds. */
const READ_MS = 1;
/** Maximum number of steps between two clock reads, because later steps may take longer. */
const MAX_STEPS = 32;

/**
 * Tells when a time budget is used up. Check `due` after each small step of work. The clock is not read every time,
 * because under some hypervisors and in an emulated kernel that is a system call of up to a tenth of a millisecond.
 */
export class Pace {
  readonly #budgetMs: number;
  #since = performance.now();
  #readAt = this.#since;
  /** Number of steps between the last clock read and the next one, and how many of them are left. */
  #steps = 1;
  #left = 1;
  #spent = false;

  constructor(budgetMs: number) {
    this.#budgetMs = budgetMs;
  }

  /** Whether the budget is used up; stays true until renew(). */
  get due(): boolean {
    if (this.#spent) return true;
    this.#left -= 1;
    return this.#left === 0 && this.#readClock();
  }

  /** Restarts the budget from the current time. */
  renew(): void {
    this.#spent = false;
    this.#since = performance.now();
    this.#readAt = this.#since;
    this.#steps = 1;
    this.#left = 1;
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
