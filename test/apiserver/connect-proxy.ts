import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { ProxySockets } from './proxy-sockets.ts';

/** An HTTP proxy that opens tunnels (CONNECT) and forwards plain requests, and remembers what it was asked for. */
export class ConnectProxy {
  /** "CONNECT host:port" and "GET http://host/path". */
  readonly asked: string[] = [];
  /** What the Proxy-Authorization header must be; everything is accepted without. */
  authorization: string | undefined;
  /** Takes CONNECT and says nothing. */
  silent = false;
  readonly #sockets: ProxySockets;

  /** @param tls PEM texts; plain HTTP without */
  constructor(tls?: { readonly cert: string; readonly key: string }) {
    const forward = (request: http.IncomingMessage, response: http.ServerResponse): void =>
      this.#forward(request, response);
    const server = tls === undefined ? http.createServer(forward) : https.createServer(tls, forward);
    this.#sockets = new ProxySockets(server);
    server.on('connection', (socket: Socket) => this.#sockets.keep(socket));
    server.on('connect', (request, client: Socket) => this.#tunnel(request, client));
  }

  /** Resolves to host:port. */
  start(): Promise<string> {
    return this.#sockets.listen();
  }

  stop(): Promise<void> {
    return this.#sockets.close();
  }

  /** Tunnels and clients that are connected now. */
  get open(): number {
    return this.#sockets.open;
  }

  #refuses(request: http.IncomingMessage): boolean {
    return this.authorization !== undefined && request.headers['proxy-authorization'] !== this.authorization;
  }

  #tunnel(request: http.IncomingMessage, client: Socket): void {
    const target = request.url ?? '';
    this.asked.push(`CONNECT ${target}`);
    if (this.silent) {
      // Read on, to see the client go.
      client.on('end', () => client.destroy()).resume();
      return;
    }
    if (this.#refuses(request)) return void client.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
    const { hostname, port } = new URL(`tcp://${target}`);
    const to = { host: hostname, port: Number(port) };
    this.#sockets.tunnel(client, to, 'HTTP/1.1 200 Connection established\r\n\r\n');
  }

  #forward(request: http.IncomingMessage, response: http.ServerResponse): void {
    this.asked.push(`${request.method} ${request.url}`);
    const onward = http.request(request.url ?? '', { method: request.method, headers: request.headers });
    onward.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  }
}
