import { errorCode } from '../../base/text/error-text.ts';
import type { CommandResult, CommandRunner } from '../../kernel/command-runner.ts';

/** kubectl has failed. The message is one sentence. */
export class KubectlError extends Error {
  override readonly name = 'KubectlError';
}

/** Bytes that kubectl may print unless less is said: of all Pods of a cluster it prints the most. */
const MOST_OUTPUT = 128 * 1024 * 1024;

const INTERRUPTED = 'interrupted before it answered';

export interface KubectlOptions {
  readonly runner: Pick<CommandRunner, 'run'>;
  /** Arguments before every other one, such as --context=NAME. */
  readonly global: readonly string[];
  /** Ends each kubectl, and starts none any more, when it aborts. */
  readonly signal?: AbortSignal;
}

/** Runs kubectl, with the access of who started this program. */
export class Kubectl {
  readonly #options: KubectlOptions;

  constructor(options: KubectlOptions) {
    this.#options = options;
  }

  /**
   * Runs kubectl to its end, whatever its exit status. Throws a KubectlError if it cannot be started, prints too much, or
   * takes more than `seconds`. `maxOutput`: bytes.
   */
  async run(args: readonly string[], seconds: number, maxOutput = MOST_OUTPUT): Promise<CommandResult> {
    const { runner, global, signal } = this.#options;
    if (signal?.aborted === true) throw new KubectlError(INTERRUPTED);
    try {
      return await runner.run('kubectl', [...global, ...args], {
        deadlineMs: seconds * 1000,
        maxOutput,
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (error) {
      if (errorCode(error) === 'ENDED') throw new KubectlError(INTERRUPTED, { cause: error });
      if (errorCode(error) === 'TIMEOUT') throw new KubectlError(`no answer within ${seconds} s`, { cause: error });
      throw new KubectlError(error instanceof Error ? error.message : String(error), { cause: error });
    }
  }

  /** Returns what kubectl prints. Throws a KubectlError if it fails. */
  async output(args: readonly string[], seconds: number): Promise<string> {
    const { status, stdout, stderr } = await this.run(args, seconds);
    if (status === 0) return stdout;
    throw new KubectlError(`kubectl ${args.slice(0, 2).join(' ')}: ${reasonOf(stderr, status)}`);
  }
}

/** Returns why kubectl failed: the last line that it printed, but for the one that names the exit status. */
export function reasonOf(stderr: string, status: number): string {
  const lines = stderr
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('command terminated with exit code'));
  return lines.at(-1)?.replace(/^(kube-ipvs-proxy|error): /, '') ?? `exit status ${status}`;
}
