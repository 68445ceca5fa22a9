import { type AddressInfo, type Server, type Socket, connect } from 'node:net';

/** The connections of a test proxy. close() ends all of them. */
export class ProxySockets {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  constructor(server: Server) {
    this.#server = server;
  }

  /** Resolves with host:port. */
  async listen(): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.listen(0, '127.0.0.1', resolve);
    await promise;
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    for (const socket of this.#sockets) socket.destroy();
    await promise;
  }

  /** Number of open connections. */
  get open(): number {
    return this.#sockets.size;
  }

  keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#sockets.delete(socket));
  }

  /** Connects to the server, sends `greeting` to the client, then forwards data in both directions. */
  tunnel(client: Socket, to: { readonly host: string; readonly port: number }, greeting: string | Uint8Array): void {
    const server = connect(to.port, to.host, () => {
      client.write(greeting);
      server.pipe(client);
      client.pipe(server);
    });
    this.keep(server);
    server.on('close', () => client.destroy());
    client.on('close', () => server.destroy());
  }
}
