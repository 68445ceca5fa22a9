import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type IpAddress, formatHostPort, formatIp, isUnspecified } from '../net/ip.ts';

export type HttpHandler = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

/** Where to listen; port 0 lets the kernel choose. Without an address, or on 0.0.0.0 or ::, every family of the host is served. */
export interface ListenAddress {
  readonly address?: IpAddress;
  readonly port: number;
}

/** Probes and scrapes are small and quick; whoever sends more or is slower than this is cut off. */
const MAX_HEADER_BYTES = 8 * 1024;
const MAX_CONNECTIONS = 512;
const HEADERS_TIMEOUT = 5_000;
const REQUEST_TIMEOUT = 10_000;
/** By so much these two may be overdrawn. */
const TIMEOUT_CHECK_INTERVAL = 1_000;
const KEEP_ALIVE_TIMEOUT = 30_000;
/** Without a byte that the client has taken. */
const ANSWER_TIMEOUT = 10_000;

/** The path without the query. */
export function pathOf(request: IncomingMessage): string {
  return (request.url ?? '/').split('?', 1)[0] ?? '/';
}

export function queryOf(request: IncomingMessage): URLSearchParams {
  const url = request.url ?? '/';
  const mark = url.indexOf('?');
  return new URLSearchParams(mark < 0 ? '' : url.slice(mark + 1));
}

export function answer(response: ServerResponse, status: number, type: string, body: string): void {
  answerPieces(response, status, type, [Buffer.from(body)]);
}

/** The pieces are not copied: several responses may send the same ones. They are held until the client has read them. */
export function answerPieces(
  response: ServerResponse,
  status: number,
  type: string,
  body: readonly Buffer[],
  timeoutMs = ANSWER_TIMEOUT,
): void {
  response.setTimeout(timeoutMs);
  response.writeHead(status, {
    'Content-Type': type,
    'X-Content-Type-Options': 'nosniff',
    'Content-Length': body.reduce((sum, { length }) => sum + length, 0),
  });
  for (const piece of body) response.write(piece);
  response.end();
}

export function answerText(response: ServerResponse, status: number, body: string): void {
  answer(response, status, 'text/plain; charset=utf-8', body);
}

/** Nothing that goes wrong in a handler may end the process, or say on the network more than that it went wrong. */
async function handle(handler: HttpHandler, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    await handler(request, response);
  } catch {
    if (response.headersSent) response.destroy();
    else answerText(response, 500, 'internal error\n');
  }
}

/** One listening HTTP server. */
export class HttpListener {
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** Listens; rejects with the system's error (EADDRINUSE, EADDRNOTAVAIL, EACCES). */
  static async open(where: ListenAddress, handler: HttpHandler): Promise<HttpListener> {
    const server = createServer(
      {
        maxHeaderSize: MAX_HEADER_BYTES,
        headersTimeout: HEADERS_TIMEOUT,
        requestTimeout: REQUEST_TIMEOUT,
        keepAliveTimeout: KEEP_ALIVE_TIMEOUT,
        connectionsCheckingInterval: TIMEOUT_CHECK_INTERVAL,
      },
      (request, response) => void handle(handler, request, response),
    );
    server.maxConnections = MAX_CONNECTIONS;
    // Connections that somebody keeps for later must not lock the kubelet's probe out: its next one gets through.
    server.on('drop', () => server.closeIdleConnections());
    const { address, port } = where;
    // As Go does: the wildcard of one family is the wildcard of both.
    const host = address === undefined || isUnspecified(address) ? {} : { host: formatIp(address) };
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject);
    server.listen({ ...host, port }, resolve);
    await promise;
    server.off('error', reject);
    // A failing accept (EMFILE) concerns one client; the server goes on.
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

export function formatListenAddress({ address, port }: ListenAddress): string {
  return address === undefined ? `*:${port}` : formatHostPort(address, port);
}
