import { spawn } from 'node:child_process';
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
      if (netns === undefined) return await start(program, program, args, options);
      const result = await start(program, 'nsenter', [`--net=${netns}`, '--', program, ...args], options);
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
  program: string,
  args: readonly string[],
  { stdin, deadlineMs = DEFAULT_DEADLINE_MS }: CommandOptions,
): Promise<CommandResult> {
  const { promise, resolve, reject } = Promise.withResolvers<CommandResult>();
  const child = spawn(program, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: commandEnvironment(),
  });
  // Not spawn's own timeout, which is left running when the program cannot be started.
  const deadline = setTimeout(() => child.kill('SIGKILL'), deadlineMs);
  const stdout = collect(child.stdout, () => child.kill('SIGKILL'));
  const stderr = collect(child.stderr, () => child.kill('SIGKILL'));
  child.once('error', (error: NodeJS.ErrnoException) => {
    clearTimeout(deadline);
    if (error.code === 'ENOENT') reject(missing(name));
    else reject(new KernelError(name, error.code ?? 'SPAWN', `cannot start ${name}: ${error.message}`));
  });
  child.once('close', (status, signal) => {
    clearTimeout(deadline);
    if (signal === 'SIGKILL') {
      reject(new KernelError(name, 'TIMEOUT', `${name} did not end within ${deadlineMs} ms and was killed`));
    } else {
      resolve({ status: status ?? -1, stdout: stdout(), stderr: stderr() });
    }
  });
  // A program that ends before it has read everything: its status says what went wrong, EPIPE does not.
  child.stdin.on('error', () => undefined);
  child.stdin.end(stdin ?? '');
  return await promise;
}

/** The environment programs get: the administrator's folders are searched too, and messages are not translated. */
function commandEnvironment(): NodeJS.ProcessEnv {
  const { PATH = '' } = process.env;
  return { PATH: `${PATH}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin`, LC_ALL: 'C' };
}

function collect(stream: NodeJS.ReadableStream, overflow: () => void): () => string {
  const chunks: Buffer[] = [];
  let length = 0;
  stream.on('data', (chunk: Buffer) => {
    length += chunk.length;
    if (length > MAX_OUTPUT) overflow();
    else chunks.push(chunk);
  });
  return () => Buffer.concat(chunks).toString();
}
