import { type Server, createConnection, createServer } from 'node:net';
import { VERSION } from '../../config/version.ts';
import type { Log } from '../../observe/log.ts';

/**
 * An abstract Unix socket (its name begins with a zero byte). Like everything that a daemon writes, it belongs to the
 * network namespace. The kernel closes it when the process exits for any reason.
 */
const LOCK_NAME = '\0kube-ipvs-proxy';

const ANSWER_MS = 1_000;
const RETRY_MS = 10_000;
/** Limits connections, because any process in the network namespace may connect. */
const MOST_QUESTIONS = 8;
const LONGEST_ANSWER = 512;

export interface DaemonLockOptions {
  /** Describes the holder to processes that find the lock held. */
  readonly holder: string;
  readonly log: Log;
  /** For tests. */
  readonly name?: string;
  readonly retryMs?: number;
}

/**
 * Indicates that a daemon runs in this network namespace. The lock is advisory: a second daemon logs a warning, keeps
 * running, and takes the lock when it is free.
 */
export class DaemonLock {
  readonly #options: DaemonLockOptions;
  #server: Server | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;
  #warned = false;

  constructor(options: DaemonLockOptions) {
    this.#options = options;
  }

  /** Tries once to take the lock. On failure, logs who holds it (once) and retries in the background. */
  async take(): Promise<void> {
    const { log, name = LOCK_NAME, holder, retryMs = RETRY_MS } = this.#options;
    if (this.#closed) return;
    const code = await this.#listen(name, holder);
    if (code === undefined) {
      if (this.#warned) log.info('the other kube-ipvs-proxy in this network namespace has exited');
      return;
    }
    if (!this.#warned) {
      const other = code === 'EADDRINUSE' ? await runningDaemon(name) : undefined;
      log.warn(
        other === undefined
          ? `failed to take the lock that protects a running daemon from --cleanup (${code}), retrying`
          : `another kube-ipvs-proxy runs in this network namespace (${other}): both write the same objects; stop one of them`,
      );
    }
    this.#warned = true;
    this.#timer = setTimeout(() => void this.take(), retryMs);
    this.#timer.unref();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#server?.close();
  }

  /** Returns the error code, or undefined if the socket listens. */
  async #listen(name: string, holder: string): Promise<string | undefined> {
    const server = createServer((socket) => {
      // The client may have disconnected.
      socket.on('error', () => socket.destroy());
      socket.setTimeout(ANSWER_MS, () => socket.destroy());
      socket.end(holder);
    });
    server.maxConnections = MOST_QUESTIONS;
    const { promise, resolve } = Promise.withResolvers<string | undefined>();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ path: name }, () => resolve(undefined));
    server.unref();
    const code = await promise;
    if (code !== undefined) return code;
    this.#server = server;
    if (this.#closed) server.close();
    return undefined;
  }
}

/** Tries to take the lock. Returns a function that releases it. */
export async function holdDaemonLock(nodeName: string, log: Log): Promise<() => void> {
  const lock = new DaemonLock({ holder: `node ${nodeName}, process ${process.pid}, version ${VERSION}`, log });
  await lock.take();
  return () => lock.close();
}

/** Returns the description of the lock's holder in this network namespace; undefined if the lock is free. */
export async function runningDaemon(name = LOCK_NAME): Promise<string | undefined> {
  const socket = createConnection({ path: name });
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  let answer = '';
  let connected = false;
  const settle = (): void => {
    resolve(connected ? answer || 'no response' : undefined);
    socket.destroy();
  };
  socket.setEncoding('utf8').once('connect', () => {
    connected = true;
  });
  socket.on('data', (text: string) => {
    answer += text;
    if (answer.length > LONGEST_ANSWER) settle();
  });
  socket.once('end', settle).once('error', settle);
  const timer = setTimeout(settle, ANSWER_MS);
  const holder = await promise;
  clearTimeout(timer);
  return holder?.slice(0, LONGEST_ANSWER);
}
