import { setImmediate } from 'node:timers/promises';
import { Pace } from '../net/pace.ts';

/** Milliseconds of reading between two turns of the event loop. */
const BUDGET_MS = 8;

/**
 * A stream that comes faster than it is read keeps its reader in microtasks: no timer fires and no health check is answered until it
 * ends. Readers ask this between objects.
 */
export class Breather {
  readonly #pace = new Pace(BUDGET_MS);

  /** To be awaited where it answers something: the budget is used up. */
  breathe(): Promise<void> | undefined {
    return this.#pace.due ? this.#turn() : undefined;
  }

  async #turn(): Promise<void> {
    await setImmediate();
    this.#pace.renew();
  }
}
