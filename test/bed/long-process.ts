import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { patient } from './patience.ts';

/** A long-lived process in its own process group. Keeps its output; `stop` ends it. */
export class LongProcess implements AsyncDisposable {
  readonly argv: readonly string[];
  readonly pid: number;
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;
  #output = '';

  private constructor(argv: readonly string[], child: ChildProcess, pid: number) {
    this.argv = argv;
    this.pid = pid;
    this.#child = child;
    this.#exited = new Promise((resolve) => {
      child.once('exit', () => {
        resolve();
      });
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8');
      stream?.on('data', (text: string) => {
        this.#output += text;
      });
    }
  }

  /** Rejects when the program cannot be started (ENOENT and the like). */
  static async start(argv: readonly string[], env: NodeJS.ProcessEnv = process.env): Promise<LongProcess> {
    const [program = '', ...args] = argv;
    // detached: its own process group, so that its children are killed with it.
    const child = spawn(program, args, { env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    await once(child, 'spawn');
    if (child.pid === undefined) {
      throw new Error(`${argv.join(' ')}: started without a process id`);
    }
    return new LongProcess(argv, child, child.pid);
  }

  /** Everything it has written to stdout and stderr so far. */
  get output(): string {
    return this.#output;
  }

  /** Exit status, or the signal that ended it, or undefined while it runs. */
  get exit(): number | NodeJS.Signals | undefined {
    return this.#child.exitCode ?? this.#child.signalCode ?? undefined;
  }

  /** Sends a signal to the process itself, not to its group. */
  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Waits for its exit. Returns false if it still runs after `timeoutMs`. */
  async ended(timeoutMs: number): Promise<boolean> {
    const timer = Promise.withResolvers<void>();
    const handle = setTimeout(timer.resolve, patient(timeoutMs));
    await Promise.race([this.#exited, timer.promise]);
    clearTimeout(handle);
    return this.exit !== undefined;
  }

  /** Waits until its output matches. Throws with the output if it exits first or `timeoutMs` has passed. */
  async waitForOutput(pattern: RegExp, timeoutMs: number): Promise<RegExpMatchArray> {
    const deadline = Date.now() + patient(timeoutMs);
    for (;;) {
      const match = this.#output.match(pattern);
      if (match !== null) {
        return match;
      }
      if (this.exit !== undefined || Date.now() > deadline) {
        const why = this.exit === undefined ? `nothing after ${patient(timeoutMs)} ms` : `ended with ${this.exit}`;
        throw new Error(`${this.argv.join(' ')}: waiting for ${pattern.source}: ${why}; output:\n${this.#output}`);
      }
      await this.ended(20);
    }
  }

  /** SIGTERM, then SIGKILL to the whole group after `graceMs`. */
  async stop(graceMs = 3000): Promise<void> {
    if (this.exit === undefined) {
      this.signal('SIGTERM');
      await this.ended(graceMs);
    }
    try {
      process.kill(-this.pid, 'SIGKILL');
    } catch {
      // The whole group has already exited.
    }
    await this.#exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
