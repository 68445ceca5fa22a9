import { once } from 'node:events';
import { type Server, createConnection, createServer } from 'node:net';
import { errorCode, errorText } from '../../base/text/error-text.ts';
import type { Log } from '../../observe/log/log.ts';
import { StartupError } from './startup-error.ts';

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

/** How a daemon describes itself to processes that find the lock held. */
export interface LockHolder {
  readonly node: string;
  readonly mode: string;
  readonly version: string;
}

export interface DaemonLock {
  /** Resolves when this daemon has the lock. */
  readonly taken: Promise<void>;
  readonly release: () => void;
}

export interface LockOptions {
  readonly name?: string;
  readonly retryMs?: number;
  /** Wait for the lock beside a daemon in another mode; otherwise, that is an error. */
  readonly takeOver?: boolean;
}

/**
 * Takes a lock that shows that a daemon runs in this network namespace. If another daemon in the same mode holds it, logs
 * a warning once and retries in the background. Resolves after the first attempt. Throws a StartupError if a daemon in
 * another mode holds it: each of the two would delete what the other one writes.
 */
export async function holdDaemonLock(holder: LockHolder, log: Log, options: LockOptions = {}): Promise<DaemonLock> {
  const { name = LOCK_NAME, retryMs = RETRY_MS, takeOver = false } = options;
  const server = lockServer(describe(holder));
  const taken = Promise.withResolvers<void>();
  let timer: NodeJS.Timeout | undefined;
  let released = false;
  let warned = false;
  const take = async (): Promise<void> => {
    const code = await listen(server, name);
    if (code === undefined) {
      if (released) server.close();
      else if (warned) log.info('took the lock of this network namespace: no other kube-ipvs-proxy holds it any more');
      taken.resolve();
      return;
    }
    if (!warned) {
      const other = code === 'EADDRINUSE' ? await runningDaemon(name) : undefined;
      if (isOfOtherMode(other, holder) && !takeOver) throw new StartupError(otherMode(other, holder));
      log.warn(
        other === undefined
          ? `failed to take the lock that protects a running daemon from --cleanup (${code}), retrying`
          : `another kube-ipvs-proxy runs in this network namespace (${other}): ${consequence(other, holder)}`,
      );
    }
    warned = true;
    if (!released) timer = setTimeout(() => void take(), retryMs).unref();
  };
  await take();
  const release = (): void => {
    released = true;
    clearTimeout(timer);
    server.close();
  };
  return { taken: taken.promise, release };
}

function describe({ node, mode, version }: LockHolder): string {
  return `node ${node}, process ${process.pid}, mode ${mode}, version ${version}`;
}

/** Older versions do not say their mode. */
function isOfOtherMode(other: string | undefined, { mode }: LockHolder): other is string {
  const theirs = /, mode (\w+)/.exec(other ?? '')?.[1];
  return theirs !== undefined && theirs !== mode;
}

function otherMode(other: string, { mode }: LockHolder): string {
  return (
    `another kube-ipvs-proxy runs in this network namespace (${other}), and each would delete what the other one writes: ` +
    `stop that one first, or start this one with --take-over, which serves in ${mode} mode at once and removes the other mode's objects when that daemon has ended`
  );
}

function consequence(other: string, holder: LockHolder): string {
  return isOfOtherMode(other, holder)
    ? 'what its mode has written stays until it has ended; stop it'
    : 'both write the same objects; stop one of them';
}

/** Returns a server that sends the description to each client. */
function lockServer(holder: string): Server {
  const server = createServer((socket) => {
    // The client may have disconnected.
    socket.on('error', () => socket.destroy());
    socket.setTimeout(ANSWER_MS, () => socket.destroy());
    socket.end(holder);
  });
  server.maxConnections = MOST_QUESTIONS;
  return server.unref();
}

/** Returns the error code, or undefined if the server listens. */
async function listen(server: Server, name: string): Promise<string | undefined> {
  try {
    await once(server.listen({ path: name }), 'listening');
    return undefined;
  } catch (error) {
    return errorCode(error) ?? errorText(error);
  }
}

/** Returns the description of the lock's holder in this network namespace; undefined if the lock is free. */
export async function runningDaemon(name = LOCK_NAME): Promise<string | undefined> {
  const socket = createConnection({ path: name, signal: AbortSignal.timeout(ANSWER_MS) }).setEncoding('utf8');
  let answer: string | undefined;
  try {
    await once(socket, 'connect');
    answer = '';
    for await (const text of socket) {
      answer += text;
      if (answer.length > LONGEST_ANSWER) break;
    }
  } catch {
    // No process listens, or the holder does not answer in time.
  }
  return answer === undefined ? undefined : answer.slice(0, LONGEST_ANSWER) || 'no response';
}
