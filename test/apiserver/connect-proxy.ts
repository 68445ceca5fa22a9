import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import { ProxySockets } from './proxy-sockets.ts';

/** An HTTP proxy that opens tunnels (CONNECT), forwards plain requests, and records all requests. */
export class ConnectProxy {
  /** Recorded requests: "CONNECT host:port" or "GET http://host/path". */
  readonly asked: string[] = [];
  /** Required value of the Proxy-Authorization header; undefined accepts all requests. */
  authorization: string | undefined;
  /** Accepts CONNECT requests but sends no response. */
  silent = false;
  readonly #sockets: ProxySockets;

  /** @param tls PEM texts; if undefined, plain HTTP */
  constructor(tls?: { readonly cert: string; readonly key: string }) {
    const forward = (request: http.IncomingMessage, response: http.ServerResponse): void =>
      this.#forward(request, response);
    const server = tls === undefined ? http.createServer(forward) : https.createServer(tls, forward);
    this.#sockets = new ProxySockets(server);
    server.on('connection', (socket: Socket) => this.#sockets.keep(socket));
    server.on('connect', (request, client: Socket) => this.#tunnel(request, client));
  }

  /** Resolves with host:port. */
  start(): Promise<string> {
    return this.#sockets.listen();
  }

  stop(): Promise<void> {
    return this.#sockets.close();
  }

  /** Number of open connections from clients and to servers. */
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
      // Keep reading, to detect that the client disconnects.
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
