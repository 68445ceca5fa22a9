import { spawn } from 'node:child_process';
import path from 'node:path';

/** The bundled program, as `make build` leaves it. */
export const PROGRAM = path.resolve('build/kube-ipvs-proxy.mjs');

/** For node -e, with the program's path without ending: says whether V8 takes what was compiled when it was built. */
export const TAKES_COMPILED = `
  const stem = process.argv.at(-1);
  const cachedData = fs.readFileSync(stem + '.cache').subarray(64);
  const { cachedDataRejected } = new vm.Script(fs.readFileSync(stem + '.js', 'latin1'), { cachedData });
  console.log(cachedDataRejected ? 'refused' : 'taken');
`;

/** How a program ended, and what it wrote. */
export interface Ended {
  /** Exit status; null when it was killed: by a signal, or because it did not end in time. */
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface EndOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** Default 20,000. */
  readonly timeoutMs?: number;
}

/** Runs a program to its end; killed when it takes too long, so that a daemon which starts after all is seen as such. */
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

/** Lines without what differs from run to run: the time that a log line begins with. */
export function linesOf(text: string): string[] {
  const lines = text.split('\n').filter((line) => line !== '');
  return lines.map((line) => line.replace(/^([IWE])\d{4} \d\d:\d\d:\d\d\.\d{6} /, '$1 '));
}
