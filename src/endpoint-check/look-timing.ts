import { COUNTED_EVERY_MS } from './endpoint-state.ts';

/** A look comes so much earlier than a whole period after the one before, to approach the time when the kernel sums up. */
const STEP_MS = 200;
/** After so many looks that all found new packets, the kernel sums up the counters one by one (since Linux 6.2). */
const MOST_IN_STEP = COUNTED_EVERY_MS / STEP_MS + 2;

/**
 * Sets the time of the next look to soon after the kernel has summed up its counters. A look without new packets was early
 * by less than a step.
 */
export class LookTiming {
  #inStep = 0;
  #wasShort = false;

  /** Returns the time until the next look. @param grew whether the look found new packets */
  next(grew: boolean): number {
    this.#wasShort = !grew && this.#inStep > 0 && !this.#wasShort;
    if (this.#wasShort) return STEP_MS;
    this.#inStep = grew ? this.#inStep + 1 : 0;
    return this.#inStep === 0 || this.#inStep > MOST_IN_STEP ? COUNTED_EVERY_MS : COUNTED_EVERY_MS - STEP_MS;
  }
}
