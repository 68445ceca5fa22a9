import { isNativeError, loadAddon } from '../netlink/addon.ts';
import { errnoName } from '../netlink/error.ts';
import { KernelError } from './kernel-error.ts';

export interface CommandResult {
  /** Exit status; -1 when a signal ended it. */
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandOptions {
  readonly stdin?: string;
  /** Default 60,000. The process is killed then. */
  readonly deadlineMs?: number;
}

/** Starts programs; the one door through which this process starts any. Never a shell. */
export interface CommandRunner {
  /** Rejects with a KernelError when the program is not there (MISSING_COMMAND) or does not end in time (TIMEOUT). */
  run(program: string, args: readonly string[], options?: CommandOptions): Promise<CommandResult>;
}

export interface CommandRunnerOptions {
  /** Path of the network namespace in which to run everything. */
  readonly netns?: string | undefined;
  readonly onStart?: (program: string) => void;
}

const DEFAULT_DEADLINE_MS = 60_000;
// A node that others have filled with rules prints tens of megabytes; more than this is a fault.
const MAX_OUTPUT = 256 * 1024 * 1024;
/** What nsenter answers when it cannot find the program: the status a shell would give. */
const NOT_FOUND = 127;

export function createCommandRunner({ netns, onStart }: CommandRunnerOptions = {}): CommandRunner {
  return {
    run: async (program, args, options = {}) => {
      onStart?.(program);
      if (netns === undefined) return await start(program, [program, ...args], options);
      const result = await start(program, ['nsenter', `--net=${netns}`, '--', program, ...args], options);
      if (result.status === NOT_FOUND) throw missing(program);
      return result;
    },
  };
}

function missing(program: string): KernelError {
  const message = `${program} is not installed: install it or put its folder into PATH`;
  return new KernelError(program, 'MISSING_COMMAND', message);
}

async function start(
  name: string,
  argv: readonly string[],
  { stdin = '', deadlineMs = DEFAULT_DEADLINE_MS }: CommandOptions,
): Promise<CommandResult> {
  // Not node:child_process, whose fork holds up the event loop for as long as it takes to copy the page tables of a large process.
  const { runProcess } = loadAddon();
  try {
    const result = await runProcess(argv, commandEnvironment(), Buffer.from(stdin), deadlineMs, MAX_OUTPUT);
    return { status: result.status, stdout: textOf(result.stdout), stderr: textOf(result.stderr) };
  } catch (error) {
    if (!isNativeError(error)) throw error;
    const { operation, errno } = error;
    const code = errnoName(errno);
    if (code === 'ENOENT') throw missing(name);
    if (code === 'ETIMEDOUT') {
      throw new KernelError(name, 'TIMEOUT', `${name} did not end within ${deadlineMs} ms and was killed`);
    }
    if (code === 'EFBIG') {
      throw new KernelError(name, code, `${name} printed more than ${MAX_OUTPUT} bytes and was killed`);
    }
    throw new KernelError(name, code, `cannot run ${name}: ${operation}: ${code}`, { cause: error });
  }
}

/** Where programs are looked for, in this order: the administrator's folders too. */
export function searchPath(): readonly string[] {
  const { PATH = '' } = process.env;
  return [...PATH.split(':'), '/usr/local/sbin', '/usr/sbin', '/sbin', '/usr/bin', '/bin'];
}

/** The environment programs get: messages are not translated. */
function commandEnvironment(): string[] {
  return [`PATH=${searchPath().join(':')}`, 'LC_ALL=C'];
}

function textOf({ buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString();
}
