import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { errorCode } from '../base/text/error-text.ts';
import { type IpAddress, type IpFamily, formatHostPort, formatIp, isUnspecified } from '../base/ip.ts';
import { Connections, type ListenerConnections } from './connections.ts';

export type HttpHandler = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

/** Port 0: the kernel chooses one. Without an address, or with 0.0.0.0 or ::, the server listens on both families. */
export interface ListenAddress {
  readonly address?: IpAddress;
  /** Without an address: listen at all addresses of this family only. */
  readonly family?: IpFamily;
  readonly port: number;
}

/** A Unix socket. Only the owner of the process may connect. */
export interface SocketPath {
  readonly path: string;
}

/** Limits for probes and scrapes, which are small and fast; other clients are disconnected. */
const MAX_HEADER_BYTES = 8 * 1024;
const HEADERS_TIMEOUT = 5_000;
const REQUEST_TIMEOUT = 10_000;
/**
 * Maximum delay until Node.js notices that one of these two has passed. Each listener has a timer: with 300 health check
 * ports, one second took 92 ms of processor time a minute, and five seconds 32.
 */
const TIMEOUT_CHECK_INTERVAL = 5_000;
const KEEP_ALIVE_TIMEOUT = 30_000;
/** Maximum time in which the client reads nothing of the response. */
const ANSWER_TIMEOUT = 10_000;
/** The listen backlog. When it is full, the kernel drops the SYN, which a client retransmits only after a second. */
const BACKLOG = 4_096;

/** Shared by all listeners, because the limit on file descriptors applies to the whole process. */
const PROCESS_CONNECTIONS = new Connections();

/** Returns what to do about a failure to listen, to append to its text; "" unless the port is in use. */
export function bindAdvice(error: unknown, port: number): string {
  if (errorCode(error) !== 'EADDRINUSE') return '';
  return `. Find the program that uses the port: \`ss -lntp 'sport = :${port}'\``;
}

/** Returns the path without the query. */
export function pathOf(request: IncomingMessage): string {
  return (request.url ?? '/').split('?', 1)[0] ?? '/';
}

export function queryOf(request: IncomingMessage): URLSearchParams {
  const url = request.url ?? '/';
  const mark = url.indexOf('?');
  return new URLSearchParams(mark < 0 ? '' : url.slice(mark + 1));
}

export function answer(
  response: ServerResponse,
  status: number,
  type: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  answerPieces(response, status, { ...headers, 'Content-Type': type }, [Buffer.from(body)]);
}

/** Sends the buffers without copying, so responses may share them. They stay in memory until the client reads them. */
export function answerPieces(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: readonly Buffer[],
  timeoutMs = ANSWER_TIMEOUT,
): void {
  response.setTimeout(timeoutMs);
  response.writeHead(status, {
    ...headers,
    'X-Content-Type-Options': 'nosniff',
    'Content-Length': body.reduce((sum, { length }) => sum + length, 0),
  });
  for (const piece of body) response.write(piece);
  response.end();
}

export function answerText(response: ServerResponse, status: number, body: string): void {
  answer(response, status, 'text/plain; charset=utf-8', body);
}

/** Handles one request. An error in a handler becomes a 500 without details. */
async function handle(
  handler: HttpHandler,
  connections: ListenerConnections,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { socket } = request;
  if (!connections.answering(socket)) {
    // Pipelining is not supported: close the connection after the current response.
    if (!socket.writableEnded) socket.destroySoon();
    return;
  }
  response.once('close', () => connections.answered(socket));
  try {
    await handler(request, response);
  } catch {
    if (response.headersSent) response.destroy();
    else answerText(response, 500, 'internal error\n');
  }
}

/** As in Go, the wildcard of one family means both, unless the family is given (Go: networks tcp4 and tcp6). */
function hostOf({ address, family }: ListenAddress): { host?: string; ipv6Only?: true } {
  if (family !== undefined) return family === 4 ? { host: '0.0.0.0' } : { host: '::', ipv6Only: true };
  return address === undefined || isUnspecified(address) ? {} : { host: formatIp(address) };
}

/** The umask gives the socket mode 0600 from the start: a chmod afterwards would leave a moment for others to connect. */
function listenForOwner(server: Server, path: string, onListening: () => void): void {
  const before = process.umask(0o177);
  try {
    // Node.js binds a path before listen() returns.
    server.listen({ path }, onListening);
  } finally {
    process.umask(before);
  }
}

export class HttpListener {
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** Listens; rejects with the system's error (EADDRINUSE, EADDRNOTAVAIL, EACCES). */
  static async open(
    where: ListenAddress | SocketPath,
    handler: HttpHandler,
    all: Connections = PROCESS_CONNECTIONS,
  ): Promise<HttpListener> {
    const connections = all.listener();
    const server = createServer(
      {
        maxHeaderSize: MAX_HEADER_BYTES,
        headersTimeout: HEADERS_TIMEOUT,
        requestTimeout: REQUEST_TIMEOUT,
        keepAliveTimeout: KEEP_ALIVE_TIMEOUT,
        connectionsCheckingInterval: TIMEOUT_CHECK_INTERVAL,
      },
      (request, response) => void handle(handler, connections, request, response),
    );
    server.on('connection', (socket: Socket) => connections.accepted(socket));
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject);
    if ('path' in where) listenForOwner(server, where.path, resolve);
    else server.listen({ ...hostOf(where), port: where.port, backlog: BACKLOG }, resolve);
    await promise;
    server.off('error', reject);
    // A failed accept (EMFILE) affects one client only.
    server.on('error', () => undefined);
    return new HttpListener(server);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo | null)?.port ?? 0;
  }

  /** Ends every connection; resolves when the port is free. */
  close(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    this.#server.closeAllConnections();
    return promise;
  }
}

export function formatListenAddress({ address, family, port }: ListenAddress): string {
  if (family !== undefined) return family === 4 ? `0.0.0.0:${port}` : `[::]:${port}`;
  return address === undefined ? `*:${port}` : formatHostPort(address, port);
}
