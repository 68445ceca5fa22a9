import { lstat, mkdir, unlink } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { once } from 'node:events';
import path from 'node:path';
import { errorCode, errorText } from '../../base/text/error-text.ts';
import { Connections } from '../../observe/connections.ts';
import { type HttpHandler, HttpListener } from '../../observe/http-listener.ts';
import { RetriedListener } from '../../observe/http-server.ts';
import type { Log } from '../../observe/log/log.ts';
import { type AnswererOptions, answerers } from './answerers.ts';
import { questionHandler } from './question-handler.ts';

/** Not shared with the HTTP servers: a flood of this socket takes no connection from probes and scrapes. */
const MOST_CONNECTIONS = 16;
const RETRY_MS = 10_000;
const CONNECT_MS = 1_000;
/** Write permission of the group and of all others. */
const WRITABLE = 0o022;

export interface QuerySocketOptions {
  readonly path: string;
  readonly handler: HttpHandler;
  readonly log: Log;
  readonly retryMs?: number;
}

/** Opens the socket of --query-socket; "" means none. Returns a function that closes it. */
export async function openQuerySocket(
  path: string,
  { log, ...options }: AnswererOptions & { readonly log: Log },
): Promise<() => Promise<void>> {
  if (path === '') return () => Promise.resolve();
  const socket = new QuerySocket({ path, handler: questionHandler(answerers(options)), log: log.child('query') });
  await socket.start();
  return () => socket.close();
}

/** A Unix socket for the subcommands. The daemon does not need it: if it cannot be made, warns once. */
export class QuerySocket extends RetriedListener {
  readonly #options: QuerySocketOptions;
  #warned = false;

  constructor(options: QuerySocketOptions) {
    super();
    this.#options = options;
  }

  protected async open(): Promise<HttpListener> {
    const { path: file, handler, log } = this.#options;
    await preparePath(file);
    const connections = new Connections({ total: MOST_CONNECTIONS, perListener: MOST_CONNECTIONS });
    const listener = await HttpListener.open({ path: file }, handler, connections);
    if (this.#warned) log.info(`the query socket ${file} is open: subcommands can ask this daemon now`);
    return listener;
  }

  protected failed(cause: unknown): number {
    const { path: file, log, retryMs = RETRY_MS } = this.#options;
    if (!this.#warned) {
      log.warn(`cannot open the query socket ${file}: ${errorText(cause)}; only the subcommands need it; retrying`);
    }
    this.#warned = true;
    return retryMs;
  }
}

/** Makes the directory, and removes the socket of a process that has ended. Throws if the path must not be used. */
async function preparePath(file: string): Promise<void> {
  const directory = path.dirname(file);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const { uid, mode } = await lstat(directory);
  if (uid !== process.getuid?.() || (mode & WRITABLE) !== 0) {
    throw new Error(`users other than the daemon's may write to ${directory}; change its owner and mode (0700)`);
  }
  const found = await lstat(file).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  });
  if (found === undefined) return;
  if (!found.isSocket()) throw new Error('a file that is not a socket has this path');
  if (await answers(file)) throw new Error('another process listens there');
  await unlink(file);
}

/** Whether a process listens on the socket. */
async function answers(file: string): Promise<boolean> {
  const socket = createConnection({ path: file, signal: AbortSignal.timeout(CONNECT_MS) });
  try {
    await once(socket, 'connect');
    return true;
  } catch (error) {
    return errorCode(error) !== 'ECONNREFUSED';
  } finally {
    socket.destroy();
  }
}
