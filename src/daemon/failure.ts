import { KernelError } from '../kernel/kernel-error.ts';
import type { Log } from '../observe/log.ts';
import { StartupError } from './startup-error.ts';

/** Runs a verb; what it throws becomes one clear sentence (a stack only for what nobody foresaw) and exit code 1. */
export async function reportFailure(log: Log, verb: () => Promise<number>): Promise<number> {
  try {
    return await verb();
  } catch (error) {
    const foreseen = error instanceof StartupError || error instanceof KernelError;
    if (foreseen) log.error(error.message);
    else
      log.error('unexpected error', { error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
    return 1;
  }
}
