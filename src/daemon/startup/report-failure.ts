import { KernelError } from '../../kernel/kernel-error.ts';
import type { Log } from '../../observe/log/log.ts';
import { StartupError } from './startup-error.ts';

/** Runs `verb`. Logs an expected error as one sentence, any other error with its stack; returns 1 for both. */
export async function reportFailure(log: Log, verb: () => Promise<number>): Promise<number> {
  try {
    return await verb();
  } catch (error) {
    const sentence = foreseen(error);
    if (sentence !== undefined) log.error(sentence);
    else
      log.error('unexpected error, probably a bug of kube-ipvs-proxy: exiting; please report this line', {
        error: error instanceof Error ? (error.stack ?? error.message) : String(error),
      });
    return 1;
  }
}

function foreseen(error: unknown): string | undefined {
  if (error instanceof StartupError || error instanceof KernelError) return error.message;
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  // Only the netlink addon (native/) is loaded with require().
  if (error.code !== 'MODULE_NOT_FOUND' && error.code !== 'ERR_DLOPEN_FAILED') return undefined;
  const [reason = ''] = error.message.split('\n');
  return `the netlink addon cannot be loaded (${reason}): run \`make build\` with the Node.js and on the kind of machine that is to run it`;
}
