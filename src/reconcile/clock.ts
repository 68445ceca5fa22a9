/** Time as the driver sees it, so that tests can own it. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Calls once after `ms`; the function returned takes it back. */
  setTimer(callback: () => void, ms: number): () => void;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  setTimer: (callback, ms) => {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};
