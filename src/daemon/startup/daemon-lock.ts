import { once } from 'node:events';
import { type Server, createConnection, createServer } from 'node:net';
import { errorCode, errorText } from '../../base/error-text.ts';
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

/**
 * Takes a lock that shows that a daemon runs in this network namespace. The lock is advisory: if another daemon holds
 * it, logs a warning once and retries in the background. Resolves after the first attempt to a function that releases
 * the lock.
 *
 * @param holder describes this daemon to processes that find the lock held
 */
export async function holdDaemonLock(
  holder: string,
  log: Log,
  name = LOCK_NAME,
  retryMs = RETRY_MS,
): Promise<() => void> {
  const server = lockServer(holder);
  let timer: NodeJS.Timeout | undefined;
  let released = false;
  let warned = false;
  const take = async (): Promise<void> => {
    const code = await listen(server, name);
    if (code === undefined) {
      if (released) server.close();
      else if (warned) log.info('took the lock of this network namespace: no other kube-ipvs-proxy holds it any more');
      return;
    }
    if (!warned) {
      const other = code === 'EADDRINUSE' ? await runningDaemon(name) : undefined;
      log.warn(
        other === undefined
          ? `failed to take the lock that protects a running daemon from --cleanup (${code}), retrying`
          : `another kube-ipvs-proxy runs in this network namespace (${other}): both write the same objects; stop one of them`,
      );
    }
    warned = true;
    if (!released) timer = setTimeout(() => void take(), retryMs).unref();
  };
  await take();
  return () => {
    released = true;
    clearTimeout(timer);
    server.close();
  };
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
