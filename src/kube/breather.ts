import { setImmediate } from 'node:timers/promises';

/** Milliseconds of reading between two turns of the event loop. */
const BUDGET_MS = 8;

/**
 * A stream that comes faster than it is read keeps its reader in microtasks: no timer fires and no health check is answered until it
 * ends. Readers ask this between objects.
 */
export class Breather {
  #since = performance.now();

  /** To be awaited where it answers something: the budget is used up. */
  breathe(): Promise<void> | undefined {
    return performance.now() - this.#since < BUDGET_MS ? undefined : this.#turn();
  }

  async #turn(): Promise<void> {
    await setImmediate();
    this.#since = performance.now();
  }
}
