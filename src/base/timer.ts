/** The longest delay that Node's timers support. A longer one fires after 1 ms, with a warning. */
const LONGEST_MS = 2 ** 31 - 1;

/** Calls `callback` once after `ms` of monotonic time, without an upper limit. Returns a function that cancels it. */
export function setTimer(callback: () => void, ms: number): () => void {
  let timer: NodeJS.Timeout;
  const wait = (left: number): void => {
    if (left > LONGEST_MS) timer = setTimeout(() => wait(left - LONGEST_MS), LONGEST_MS);
    else timer = setTimeout(callback, left);
  };
  wait(ms);
  return () => clearTimeout(timer);
}

/** Resolves after `ms`, which has no upper limit. Rejects with the signal's reason if the signal aborts first. */
export async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const cancel = setTimer(resolve, ms);
  const abort = (): void => reject(signal.reason as Error);
  signal.addEventListener('abort', abort, { once: true });
  try {
    await promise;
  } finally {
    cancel();
    signal.removeEventListener('abort', abort);
  }
}

/** Returns the retry delay in ms: `firstMs`, doubled after each further failure in a row, at most `maxMs`. */
export function doublingDelay(failures: number, maxMs: number, firstMs = 1_000): number {
  return Math.min(firstMs * 2 ** Math.min(failures - 1, 30), maxMs);
}
