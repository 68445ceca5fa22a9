import { KernelError } from '../kernel/kernel-error.ts';
import type { Log } from '../observe/log.ts';
import { StartupError } from './startup-error.ts';

/** Runs a verb; what it throws becomes one clear sentence (a stack only for what nobody foresaw) and exit code 1. */
export async function reportFailure(log: Log, verb: () => Promise<number>): Promise<number> {
  try {
    return await verb();
  } catch (error) {
    const sentence = foreseen(error);
    if (sentence !== undefined) log.error(sentence);
    else
      log.error('unexpected error', { error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
    return 1;
  }
}

function foreseen(error: unknown): string | undefined {
  if (error instanceof StartupError || error instanceof KernelError) return error.message;
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  // From require(), the only one here: the addon of native/.
  if (error.code !== 'MODULE_NOT_FOUND' && error.code !== 'ERR_DLOPEN_FAILED') return undefined;
  const [reason = ''] = error.message.split('\n');
  return `the netlink addon cannot be loaded (${reason}): run \`make build\` with the Node.js and on the kind of machine that is to run it`;
}
