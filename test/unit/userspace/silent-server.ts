import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type Socket, connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Port } from '../../../src/base/port.ts';
import type { Backend } from '../../../src/userspace/engine-update.ts';
import { LOCAL } from './engine-bed.ts';

const LISTEN = `require('node:net').createServer().listen({ host: '127.0.0.1', port: 0, backlog: 1 }, function () {
  console.log(this.address().port);
})`;
/** More than its backlog: the kernel drops the SYN of further connections. */
const WAITING = 3;

/** A port whose connects are not answered: its process is stopped, and its backlog is full. */
export class SilentServer implements AsyncDisposable {
  readonly backend: Backend;
  readonly #process: ChildProcess;
  readonly #waiting: readonly Socket[];

  private constructor(port: Port, process: ChildProcess, waiting: readonly Socket[]) {
    this.backend = { address: LOCAL, port, weight: 1 };
    this.#process = process;
    this.#waiting = waiting;
  }

  static async start(): Promise<SilentServer> {
    const child = spawn(process.execPath, ['-e', LISTEN], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [output] = (await once(child.stdout, 'data')) as [Buffer];
    child.kill('SIGSTOP');
    const port = Number(output.toString()) as Port;
    const waiting = Array.from({ length: WAITING }, () => connect({ host: '127.0.0.1', port }));
    for (const socket of waiting) socket.on('error', () => undefined);
    await sleep(100);
    return new SilentServer(port, child, waiting);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#waiting) socket.destroy();
    const ended = once(this.#process, 'exit');
    this.#process.kill('SIGKILL');
    await ended;
  }
}
