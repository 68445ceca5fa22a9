import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Interface, createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import type { ClusterShape } from './large-cluster.ts';
import type { Get, Scaling } from './serve-cluster.ts';

/** The API server for tests as a process in a network namespace, with a large cluster, and changes on demand. */
export class ApiProcess implements AsyncDisposable {
  readonly kubeconfig: string;
  readonly #folder: string;
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: Interface;
  readonly #ended: Promise<never>;

  private constructor(netns: string, shape: ClusterShape, folder: string) {
    this.#folder = folder;
    this.kubeconfig = path.join(folder, 'kubeconfig');
    const argv = [process.execPath, 'lab/bench/serve-cluster.ts', JSON.stringify(shape), this.kubeconfig];
    const stdio = ['pipe', 'pipe', 'inherit'] as const;
    this.#child = spawn('nsenter', [`--net=${netns}`, '--', ...argv], { stdio: [...stdio] });
    this.#lines = createInterface({ input: this.#child.stdout });
    this.#ended = once(this.#child, 'exit').then(() => Promise.reject(new Error('the API server has ended')));
    // There may be no waiting process when it ends normally.
    this.#ended.catch(() => undefined);
  }

  /** @param netns path of the namespace */
  static async start(netns: string, shape: ClusterShape): Promise<ApiProcess> {
    const server = new ApiProcess(netns, shape, await mkdtemp(path.join(tmpdir(), 'bench-api-')));
    await server.#line();
    return server;
  }

  /** Answers when the first change was given to the watches: milliseconds of `now()`. */
  async scale(scaling: Scaling): Promise<number> {
    return Number(await this.#ask(scaling)) / 1e6;
  }

  /** The text at a URL in the namespace; undefined if nothing answers. */
  async get(url: string): Promise<string | undefined> {
    return (JSON.parse(await this.#ask({ get: url })) as string | null) ?? undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = once(this.#child, 'exit');
    this.#child.stdin.end();
    await exited;
    await rm(this.#folder, { recursive: true });
  }

  async #ask(question: Scaling | Get): Promise<string> {
    const answered = this.#line();
    this.#child.stdin.write(`${JSON.stringify(question)}\n`);
    return await answered;
  }

  async #line(): Promise<string> {
    const [line] = (await Promise.race([once(this.#lines, 'line'), this.#ended])) as [string];
    return line;
  }
}

/** Milliseconds of the monotonic clock, the same in all processes. */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
