import { spawn } from 'node:child_process';
import path from 'node:path';

/** The bundled program, as `make build` leaves it. */
export const PROGRAM = path.resolve('build/kube-ipvs-proxy.mjs');

/** Exit status and output of a program. */
export interface Ended {
  /** Exit status; null if it was killed by a signal or at the timeout. */
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface EndOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** Default 20,000. */
  readonly timeoutMs?: number;
}

/** Runs a program until it exits. Kills it at the timeout, so that a test detects a daemon that starts unexpectedly. */
export async function runToEnd(argv: readonly string[], options: EndOptions = {}): Promise<Ended> {
  const [program = '', ...args] = argv;
  const { timeoutMs: timeout = 20_000, ...rest } = options;
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], timeout, killSignal: 'SIGKILL', ...rest });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text;
    });
  }
  const { promise, resolve, reject } = Promise.withResolvers<number | null>();
  child.once('error', reject);
  child.once('close', resolve);
  return { status: await promise, ...output };
}

/** Returns the lines without parts that vary between runs. Of a log line, keeps severity, message and fields. */
export function linesOf(text: string): string[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const entry = /^([IWE])\d{4} [\d:.]{15} +\d+ [\w-]+\.ts:\d+\] ("(?:[^"\\]|\\.)*")(.*)$/.exec(line);
      return entry === null ? line : `${entry[1]} ${String(JSON.parse(entry[2] ?? ''))}${entry[3]}`;
    });
}
