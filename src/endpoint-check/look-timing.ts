import { COUNTED_EVERY_MS } from './endpoint-state.ts';

/** A look comes so much earlier than a whole period after the one before, to approach the time when the kernel sums up. */
const STEP_MS = 200;
/**
 * If so many looks have all found new packets, the kernel sums up the counters one by one (since Linux 6.2). Then no time is
 * best, and a look comes after half a period.
 */
const MOST_IN_STEP = COUNTED_EVERY_MS / STEP_MS + 2;

/**
 * Sets the time of the next look to soon after the kernel has summed up its counters. A look without new packets was early
 * by less than a step.
 */
export class LookTiming {
  #inStep = 0;
  #wasShort = false;
  #wasEarly = false;

  /** Returns the time until the next look. @param grew whether the look found new packets */
  next(grew: boolean): number {
    this.#wasShort = !grew && this.#inStep > 0 && !this.#wasShort;
    if (this.#wasShort) {
      this.#wasEarly = true;
      return STEP_MS;
    }
    this.#inStep = grew ? this.#inStep + 1 : 0;
    if (this.#inStep === 0) this.#wasEarly = false;
    if (this.#inStep > MOST_IN_STEP && !this.#wasEarly) return COUNTED_EVERY_MS / 2;
    return this.#inStep === 0 || this.#inStep > MOST_IN_STEP ? COUNTED_EVERY_MS : COUNTED_EVERY_MS - STEP_MS;
  }
}
