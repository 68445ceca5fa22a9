import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type Interface, createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

/** What the system's tools took. */
export interface ToolTime {
  readonly wallMs: number;
  /** User and system time of the tools themselves. */
  readonly cpuMs: number;
}

/**
 * A shell that waits in a network namespace: what it runs costs one fork and exec of a small process, and nothing for getting
 * there. So the tools are not charged for how the bench is built.
 */
export class NetnsShell implements AsyncDisposable {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: Interface;

  constructor(netns: string) {
    this.#child = spawn('nsenter', [`--net=${netns}`, '--', 'bash', '--norc'], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#child.stdout });
  }

  /** Runs one line of shell, its output thrown away. */
  async time(line: string): Promise<ToolTime> {
    const answered = once(this.#lines, 'line') as Promise<[string]>;
    // bash's own clock: real, user and system seconds of the group.
    this.#child.stdin.write(`TIMEFORMAT='%3R %3U %3S'; { time { ${line}; } >/dev/null 2>/dev/null; } 2>&1\n`);
    const [text] = await answered;
    const [real, user, system] = text.split(' ').map((seconds) => Number(seconds) * 1_000);
    if (real === undefined || user === undefined || system === undefined || Number.isNaN(real + user + system)) {
      throw new Error(`no times: ${text}`);
    }
    return { wallMs: real, cpuMs: user + system };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = once(this.#child, 'exit');
    this.#child.stdin.end();
    await exited;
  }
}
