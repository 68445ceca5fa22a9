import { setTimeout } from 'node:timers/promises';

/** Longest pause after a question, in milliseconds. */
const MOST_REST_MS = 1_000;

/**
 * Answers one question at a time, and then pauses for as long as the answer took: a client that asks without pause
 * takes at most half of the daemon's time. Syncs, which are not queued here, take the rest.
 */
export class QuestionQueue {
  #free: Promise<unknown> = Promise.resolve();

  /** Rejects with the signal's reason if it aborts before the work begins. */
  async run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const before = this.#free;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#free = promise;
    await before;
    // A question whose client has gone is skipped without a rest: thousands of them must not delay the next question.
    if (signal.aborted) resolve();
    signal.throwIfAborted();
    const began = performance.now();
    try {
      return await work();
    } finally {
      const rest = Math.min(MOST_REST_MS, performance.now() - began);
      void setTimeout(rest, undefined, { ref: false }).then(resolve);
    }
  }
}
