import { COUNTED_EVERY_MS } from './endpoint-state.ts';

/** How much earlier than after a whole period the next look is, to come nearer to the time when the kernel sums up. */
const STEP_MS = 200;
/** After so many looks that each found more, the kernel does not sum up all counters at one time (since Linux 6.2). */
const MOST_IN_STEP = COUNTED_EVERY_MS / STEP_MS + 2;

/**
 * Says when to look next, so that a look comes soon after the kernel has summed up its counters. A look that finds nothing
 * new came too early by less than a step.
 */
export class LookTiming {
  #inStep = 0;
  #wasShort = false;

  /** Returns the time until the next look. @param grew whether the look found more than the one before */
  next(grew: boolean): number {
    this.#wasShort = !grew && this.#inStep > 0 && !this.#wasShort;
    if (this.#wasShort) return STEP_MS;
    this.#inStep = grew ? this.#inStep + 1 : 0;
    return this.#inStep === 0 || this.#inStep > MOST_IN_STEP ? COUNTED_EVERY_MS : COUNTED_EVERY_MS - STEP_MS;
  }
}
