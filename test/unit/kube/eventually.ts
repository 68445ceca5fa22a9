import { setTimeout as sleep } from 'node:timers/promises';

/** Repeats an assertion until it holds; fails with its last error after `timeoutMs`. */
export async function eventually(assertion: () => void, timeoutMs = 15_000): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      return assertion();
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
    await sleep(5);
  }
}
