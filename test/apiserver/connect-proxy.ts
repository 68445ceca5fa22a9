import http from 'node:http';
import https from 'node:https';
import { type AddressInfo, type Socket, connect } from 'node:net';

/** An HTTP proxy that opens tunnels (CONNECT) and forwards plain requests, and remembers what it was asked for. */
export class ConnectProxy {
  /** "CONNECT host:port" and "GET http://host/path". */
  readonly asked: string[] = [];
  /** What the Proxy-Authorization header must be; everything is accepted without. */
  authorization: string | undefined;
  /** Takes CONNECT and says nothing. */
  silent = false;
  readonly #server: http.Server | https.Server;
  readonly #sockets = new Set<Socket>();

  /** @param tls PEM texts; plain HTTP without */
  constructor(tls?: { readonly cert: string; readonly key: string }) {
    const forward = (request: http.IncomingMessage, response: http.ServerResponse): void =>
      this.#forward(request, response);
    this.#server = tls === undefined ? http.createServer(forward) : https.createServer(tls, forward);
    this.#server.on('connection', (socket: Socket) => this.#keep(socket));
    this.#server.on('connect', (request, client: Socket) => this.#tunnel(request, client));
  }

  /** Resolves to host:port. */
  async start(): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.listen(0, '127.0.0.1', resolve);
    await promise;
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    for (const socket of this.#sockets) socket.destroy();
    await promise;
  }

  /** Tunnels and clients that are connected now. */
  get open(): number {
    return this.#sockets.size;
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#sockets.delete(socket));
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
    const server = connect(Number(port), hostname, () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n');
      server.pipe(client);
      client.pipe(server);
    });
    this.#keep(server);
    server.on('close', () => client.destroy());
    client.on('close', () => server.destroy());
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
