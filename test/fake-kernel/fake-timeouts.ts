import { KernelError } from '../../src/kernel/kernel-error.ts';

/** Maximum timeout in seconds of a kernel with 250 jiffies per second. */
const MOST = Math.trunc((2 ** 31 - 1) / 250);

/** Throws the error that the kernel returns for a timeout above the maximum. */
export function checkTimeouts(operation: string, seconds: readonly number[]): void {
  if (seconds.some((each) => each > MOST)) throw new KernelError(operation, 'EINVAL', `${operation}: EINVAL`);
}
