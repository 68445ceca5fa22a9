/** Time as the driver sees it, so that tests can own it. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Calls once after `ms`, at 0 or less in the next turn of the event loop; the function returned takes it back. */
  setTimer(callback: () => void, ms: number): () => void;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  setTimer: (callback, ms) => {
    if (ms <= 0) {
      // A timer of 0 ms waits 1 ms, and a tick of the kernel (up to 10 ms) where that has no finer ones: a change need not.
      const immediate = setImmediate(callback);
      return () => clearImmediate(immediate);
    }
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};
