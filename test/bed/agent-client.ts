import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

import type { AgentCommand, AgentReply, AgentResults } from './agent-protocol.ts';
import { patient } from './patience.ts';

const compileCache = path.resolve(import.meta.dirname, '../../build/test/compile-cache');

interface Waiter {
  resolve(result: AgentResults[keyof AgentResults]): void;
  reject(error: Error): void;
}

/** The agent for TCP and UDP. */
export const NODE_AGENT = [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  path.join(import.meta.dirname, 'agent.ts'),
] as const;

/** The agent for SCTP, with the Python of the system: others in PATH may be slow wrappers. */
export const SCTP_AGENT = ['/usr/bin/python3', path.join(import.meta.dirname, 'sctp_agent.py')] as const;

/** The client of an agent that runs in one namespace. */
export class AgentClient implements AsyncDisposable {
  readonly #namespace: string;
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #waiters = new Map<number, Waiter>();
  #lastId = 0;
  #ended = false;

  constructor(namespace: string, argv: readonly string[] = NODE_AGENT) {
    this.#namespace = namespace;
    this.#child = spawn(
      'ip',
      ['netns', 'exec', namespace, ...argv],
      // Stripping types and compiling take half of an agent's start on the test kernel: cache both.
      { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, NODE_COMPILE_CACHE: compileCache } },
    );
    this.#child.stdin.on('error', () => {});
    this.#child.on('error', () => {
      this.#end();
    });
    this.#child.on('exit', () => {
      this.#end();
    });
    createInterface({ input: this.#child.stdout }).on('line', (line) => {
      this.#receive(JSON.parse(line) as AgentReply);
    });
  }

  /** Sends one command and waits for its reply. Rejects if the agent exits or does not reply within `timeoutMs`. */
  ask<C extends AgentCommand>(command: C, timeoutMs: number): Promise<AgentResults[C['do']]> {
    if (this.#ended) {
      return Promise.reject(new Error(`agent in ${this.#namespace} has ended`));
    }
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiters.delete(id);
        reject(new Error(`agent in ${this.#namespace}: no reply to ${command.do} in ${patient(timeoutMs)} ms`));
      }, patient(timeoutMs));
      this.#waiters.set(id, {
        resolve: (result) => {
          clearTimeout(timer);
          // The agent replies to each command with the result type of that command.
          resolve(result as AgentResults[C['do']]);
        },
        reject: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      });
      this.#child.stdin.write(`${JSON.stringify({ ...command, id })}\n`);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#ended) {
      return;
    }
    const exited = once(this.#child, 'exit');
    this.#child.stdin.end();
    const timer = setTimeout(() => {
      this.#child.kill('SIGKILL');
    }, patient(2000));
    await exited;
    clearTimeout(timer);
  }

  #receive(reply: AgentReply): void {
    const waiter = this.#waiters.get(reply.id);
    this.#waiters.delete(reply.id);
    if ('error' in reply) {
      waiter?.reject(new Error(`agent in ${this.#namespace}: ${reply.error}`));
    } else {
      waiter?.resolve(reply.result);
    }
  }

  #end(): void {
    this.#ended = true;
    for (const waiter of this.#waiters.values()) {
      waiter.reject(new Error(`agent in ${this.#namespace} ended before it replied`));
    }
    this.#waiters.clear();
  }
}
