import { setTimer } from '../../base/timer.ts';
import { wallNow } from '../../base/wall-clock.ts';

/** The clock and timers of src/reconcile; tests replace them. */
export interface Clock {
  /** Returns monotonic time in milliseconds, for delays, deadlines and durations. */
  now(): number;
  /** Returns milliseconds since 1970, for timestamps that people or the API read. */
  wallNow(): number;
  /** Calls `callback` after `ms`, or in the next event loop iteration if `ms` <= 0. Returns a cancel function. */
  setTimer(callback: () => void, ms: number): () => void;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  wallNow,
  setTimer: (callback, ms) => {
    if (ms > 0) return setTimer(callback, ms);
    // A timer of 0 ms would wait 1 ms, or a tick (up to 10 ms) on kernels without high-resolution timers.
    const immediate = setImmediate(callback);
    return () => clearImmediate(immediate);
  },
};
