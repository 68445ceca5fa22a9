import { execFile } from 'node:child_process';
import { patient } from './patience.ts';

export interface CommandOptions {
  /** Milliseconds until the command is killed; default 30,000. */
  readonly timeoutMs?: number;
  readonly input?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** A status other than 0 is a result, not an error. */
  readonly allowFailure?: boolean;
}

export interface CommandResult {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command that could not be started, was killed, or ended with a status other than 0. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly argv: readonly string[];
  /** Exit status; undefined when the command was killed or never started. */
  readonly status: number | undefined;
  readonly stderr: string;

  constructor(argv: readonly string[], reason: string, status: number | undefined, stderr: string) {
    super(`${argv.join(' ')}: ${reason}${stderr === '' ? '' : `: ${stderr.trim()}`}`);
    this.argv = argv;
    this.status = status;
    this.stderr = stderr;
  }
}

/** Runs a program with its arguments, without a shell, to its end. */
export function runCommand(argv: readonly string[], options: CommandOptions = {}): Promise<CommandResult> {
  const [program, ...args] = argv;
  if (program === undefined) {
    return Promise.reject(new CommandError(argv, 'no program given', undefined, ''));
  }
  const timeoutMs = patient(options.timeoutMs ?? 30_000);
  return new Promise((resolve, reject) => {
    const child = execFile(
      program,
      args,
      { timeout: timeoutMs, killSignal: 'SIGKILL', maxBuffer: 64 * 1024 * 1024, env: options.env ?? process.env },
      (error, stdout, stderr) => {
        if (error === null) {
          resolve({ status: 0, stdout, stderr });
        } else if (error.killed === true) {
          reject(new CommandError(argv, `killed after ${timeoutMs} ms`, undefined, stderr));
        } else if (typeof error.code !== 'number') {
          reject(new CommandError(argv, error.signal ?? error.code ?? error.message, undefined, stderr));
        } else if (options.allowFailure === true) {
          resolve({ status: error.code, stdout, stderr });
        } else {
          reject(new CommandError(argv, `status ${error.code}`, error.code, stderr));
        }
      },
    );
    // A program that exits without reading its input breaks the pipe; its status shows the error.
    child.stdin?.on('error', () => {});
    child.stdin?.end(options.input ?? '');
  });
}
