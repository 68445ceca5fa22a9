import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { KernelError } from './kernel-error.ts';

export interface CommandResult {
  /** Exit status; -1 if a signal ended the program. */
  readonly status: number;
  /** The signal that ended the program. */
  readonly signal?: NodeJS.Signals;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandOptions {
  readonly stdin?: string;
  /** Timeout in milliseconds, after which the process group is killed; 60,000 by default. */
  readonly deadlineMs?: number;
  /** Ends the program when it aborts. */
  readonly signal?: AbortSignal;
  /** Maximum bytes of stdout, and of stderr; 256 MiB by default, because iptables-save may print tens of megabytes. */
  readonly maxOutput?: number;
}

/** Starts all child processes of this program, without a shell. */
export interface CommandRunner {
  /**
   * Rejects with a KernelError: MISSING_COMMAND (not installed), TIMEOUT (killed at the deadline), ENDED (killed because the
   * signal aborted), EFBIG (too much output).
   */
  run(program: string, args: readonly string[], options?: CommandOptions): Promise<CommandResult>;
}

export interface CommandRunnerOptions {
  /** Path of the network namespace in which programs run. */
  readonly netns?: string | undefined;
  /** Environment variables beside PATH and LC_ALL. */
  readonly env?: NodeJS.ProcessEnv;
  readonly onStart?: (program: string) => void;
}

const DEFAULT_DEADLINE_MS = 60_000;
const DEFAULT_MAX_OUTPUT = 256 * 1024 * 1024;
/** Exit status of nsenter if it cannot find the program; a shell uses the same one. */
const NOT_FOUND = 127;

export function createCommandRunner({ netns, env = {}, onStart }: CommandRunnerOptions = {}): CommandRunner {
  return {
    run: async (program, args, options = {}) => {
      onStart?.(program);
      if (netns === undefined) return await start(program, [program, ...args], env, options);
      const result = await start(program, ['nsenter', `--net=${netns}`, '--', program, ...args], env, options);
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
  [program = name, ...args]: readonly string[],
  env: NodeJS.ProcessEnv,
  { stdin = '', deadlineMs = DEFAULT_DEADLINE_MS, maxOutput = DEFAULT_MAX_OUTPUT, signal: ending }: CommandOptions,
): Promise<CommandResult> {
  const child = spawnProgram(name, program, args, env);
  const { promise, resolve, reject } = Promise.withResolvers<CommandResult>();
  child.on('error', (error) => reject(startFailure(name, error)));
  // If the program did not start, an error event follows, and the streams may be undefined.
  if (child.pid === undefined) return await promise;
  const group = -child.pid;
  let failure: KernelError | undefined;
  const kill = (code: string, why: string): void => {
    failure ??= new KernelError(name, code, `${name} ${why} and was killed`);
    // After the program is reaped, its process id may belong to another process: do not kill it.
    if (child.exitCode === null && child.signalCode === null) process.kill(group, 'SIGKILL');
    // A process outside the group may keep the streams open.
    child.stdout.destroy();
    child.stderr.destroy();
  };
  const collect = (stream: Readable): readonly Buffer[] => {
    const chunks: Buffer[] = [];
    let length = 0;
    stream.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length > maxOutput) kill('EFBIG', `printed more than ${maxOutput} bytes`);
    });
    return chunks;
  };
  const stdout = collect(child.stdout);
  const stderr = collect(child.stderr);
  const end = (): void => kill('ENDED', 'was not wanted any more');
  ending?.addEventListener('abort', end);
  const deadline = setTimeout(kill, deadlineMs, 'TIMEOUT', `did not end within ${deadlineMs} ms`);
  child.on('close', (status, signal) => {
    clearTimeout(deadline);
    ending?.removeEventListener('abort', end);
    const ended = signal === null ? {} : { signal };
    const output = { stdout: textOf(stdout), stderr: textOf(stderr) };
    if (failure === undefined) resolve({ status: status ?? -1, ...ended, ...output });
    else reject(failure);
  });
  // A program need not read all of its input, so ignore write errors.
  child.stdin.on('error', () => undefined);
  child.stdin.end(stdin);
  return await promise;
}

function spawnProgram(
  name: string,
  program: string,
  args: readonly string[],
  own: NodeJS.ProcessEnv,
): ChildProcessWithoutNullStreams {
  try {
    // LC_ALL=C: untranslated messages. detached: a new process group, which can be killed as a whole.
    return spawn(program, args, { env: { ...own, PATH: searchPath().join(':'), LC_ALL: 'C' }, detached: true });
  } catch (error) {
    throw startFailure(name, error);
  }
}

function startFailure(name: string, error: unknown): KernelError {
  const { code = 'UNKNOWN', message } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return missing(name);
  return new KernelError(name, code, `cannot run ${name}: ${message}`, { cause: error });
}

/**
 * Returns the folders to search for programs: PATH, then the standard folders. Omits empty entries, which would mean
 * the current folder.
 */
export function searchPath(): readonly string[] {
  const { PATH = '' } = process.env;
  return [...PATH.split(':').filter(Boolean), '/usr/local/sbin', '/usr/sbin', '/sbin', '/usr/bin', '/bin'];
}

function textOf(chunks: readonly Buffer[]): string {
  return Buffer.concat(chunks).toString();
}
