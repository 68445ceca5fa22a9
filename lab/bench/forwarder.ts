import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runCommand } from '../../test/bed/command.ts';

export type ForwarderName = 'ours' | 'haproxy' | 'socat' | 'ipvs' | 'nothing';

const LOCAL = '127.0.0.1';
/** On lo while IPVS has it. */
const VIRTUAL = '10.99.0.1';

/** What forwards TCP connections to an endpoint at 127.0.0.1. */
export class Forwarder implements AsyncDisposable {
  /** Where clients connect to. */
  readonly address: string;
  readonly port: number;
  readonly #child: ChildProcess | undefined;
  readonly #end: () => Promise<unknown>;

  private constructor(
    address: string,
    port: number,
    child?: ChildProcess,
    end: () => Promise<unknown> = async () => {},
  ) {
    this.address = address;
    this.port = port;
    this.#child = child;
    this.#end = end;
  }

  /** Undefined if it is the kernel, or nothing. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  static async start(name: ForwarderName, endpoint: number): Promise<Forwarder> {
    if (name === 'nothing') return new Forwarder(LOCAL, endpoint);
    const port = await freePort();
    switch (name) {
      case 'ours': {
        const program = [process.execPath, '--disable-warning=ExperimentalWarning', 'lab/bench/engine-process.ts'];
        const child = started([...program, `${port}`, `${endpoint}`]);
        await lineOf(child);
        return new Forwarder(LOCAL, port, child);
      }
      case 'haproxy': {
        const folder = await mkdtemp(path.join(tmpdir(), 'haproxy-'));
        const file = path.join(folder, 'haproxy.cfg');
        await writeFile(file, haproxyConfig(port, endpoint));
        const child = started(['haproxy', '-db', '-f', file]);
        await untilListening(port);
        return new Forwarder(LOCAL, port, child, () => rm(folder, { recursive: true }));
      }
      case 'socat': {
        const listen = `TCP4-LISTEN:${port},bind=${LOCAL},fork,reuseaddr,nodelay,backlog=4096`;
        const child = started(['socat', listen, `TCP4:${LOCAL}:${endpoint},nodelay`]);
        await untilListening(port);
        return new Forwarder(LOCAL, port, child);
      }
      case 'ipvs': {
        const at = `${VIRTUAL}:${port}`;
        await runCommand(['ip', 'addr', 'replace', `${VIRTUAL}/32`, 'dev', 'lo']);
        await runCommand(['ipvsadm', '-A', '-t', at, '-s', 'rr']);
        await runCommand(['ipvsadm', '-a', '-t', at, '-r', `${LOCAL}:${endpoint}`, '-m']);
        return new Forwarder(VIRTUAL, port, undefined, () => runCommand(['ipvsadm', '-D', '-t', at]));
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child !== undefined) await ended(this.#child);
    await this.#end();
  }
}

function haproxyConfig(port: number, endpoint: number): string {
  return `global
  nbthread 1
  maxconn 9000
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen bench
  bind 127.0.0.1:${port}
  server endpoint 127.0.0.1:${endpoint}
`;
}

/** Starts a program of which only the output is of interest. */
export function started(argv: readonly string[]): ChildProcess {
  const [program = '', ...args] = argv;
  return spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'], detached: true });
}

/** Resolves to the first line that a program prints. */
export async function lineOf(child: ChildProcess): Promise<string> {
  let text = '';
  for await (const chunk of child.stdout ?? []) {
    text += String(chunk);
    if (text.includes('\n')) return text.trim();
  }
  throw new Error(`${child.spawnargs.join(' ')} printed nothing`);
}

/** Ends a program with the processes that it started. */
export async function ended(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null) return;
  const exit = once(child, 'exit');
  process.kill(-child.pid, 'SIGKILL');
  await exit;
}

async function untilListening(port: number): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    const socket = connect(port, LOCAL);
    const [is] = await Promise.race([
      once(socket, 'connect').then(() => [true]),
      once(socket, 'error').then(() => [false]),
    ]).catch(() => [false]);
    socket.destroy();
    if (is === true) return;
    await sleep(50);
  }
  throw new Error(`nothing listens at port ${port}`);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
