import { KernelError } from '../../kernel/kernel-error.ts';
import type { Log } from '../../observe/log/log.ts';

/** Maximum seconds of a kernel timeout, a signed 32-bit number of jiffies, with HZ = 100, 250, 300 and 1000. */
const LONGEST_SECONDS = [100, 250, 300, 1_000].map((hz) => Math.trunc((2 ** 31 - 1) / hz));

/** Returns whole seconds. Values below one become one, because 0 keeps the kernel's value. */
export function toKernelSeconds(ms: number): number {
  return ms > 0 ? Math.max(1, Math.trunc(ms / 1_000)) : 0;
}

/** Sets a timeout. If it exceeds the kernel's maximum, sets the maximum and logs a warning. */
export async function setTimeoutWithin(
  name: string,
  seconds: number,
  set: (seconds: number) => Promise<void>,
  log: Log,
): Promise<void> {
  const choices = [
    Math.min(seconds, LONGEST_SECONDS[0] ?? seconds),
    ...LONGEST_SECONDS.filter((most) => most < seconds),
  ];
  for (const [at, choice] of choices.entries()) {
    try {
      await set(choice);
      if (choice < seconds)
        log.warn(`the configured value of ${name} exceeds the maximum of this kernel: using the maximum`, {
          configuredSeconds: seconds,
          seconds: choice,
        });
      return;
    } catch (error) {
      const tooLong = error instanceof KernelError && error.code === 'EINVAL';
      if (!tooLong || at === choices.length - 1) throw error;
    }
  }
}
