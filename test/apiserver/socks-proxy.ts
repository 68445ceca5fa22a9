import { type AddressInfo, type Server, type Socket, connect, createServer } from 'node:net';

const NO_PASSWORD = 0;
const CONNECT = 1;
const ADDRESS_LENGTH: Readonly<Record<number, number>> = { 1: 4, 4: 16 };

/** A SOCKS5 proxy (RFC 1928) without passwords, which remembers what it was asked for. */
export class SocksProxy {
  /** "host:port" */
  readonly asked: string[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  constructor() {
    this.#server = createServer((client) => {
      this.#keep(client);
      this.#serve(client).catch(() => client.destroy());
    });
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

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#sockets.delete(socket));
  }

  async #serve(client: Socket): Promise<void> {
    const [, methods = 0] = await take(client, 2);
    await take(client, methods);
    client.write(Buffer.from([5, NO_PASSWORD]));
    const [, command, , kind = 0] = await take(client, 4);
    if (command !== CONNECT) throw new Error('only CONNECT');
    const host = await this.#host(client, kind);
    const port = (await take(client, 2)).readUInt16BE();
    this.asked.push(`${host}:${port}`);
    const server = connect(port, host, () => {
      client.write(Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]));
      server.pipe(client);
      client.pipe(server);
    });
    this.#keep(server);
    server.on('close', () => client.destroy());
    client.on('close', () => server.destroy());
  }

  async #host(client: Socket, kind: number): Promise<string> {
    const length = ADDRESS_LENGTH[kind];
    if (length === 4) return (await take(client, 4)).join('.');
    if (length !== undefined) throw new Error('no IPv6 here');
    const [size = 0] = await take(client, 1);
    return (await take(client, size)).toString();
  }
}

async function take(socket: Socket, bytes: number): Promise<Buffer> {
  for (;;) {
    const chunk = socket.read(bytes) as Buffer | null;
    if (chunk !== null) return chunk;
    if (socket.readableEnded || socket.destroyed) throw new Error('the client has gone');
    const { promise, resolve } = Promise.withResolvers<void>();
    for (const event of ['readable', 'close']) socket.once(event, resolve);
    await promise;
  }
}
