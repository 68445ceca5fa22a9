import { type Socket, createServer } from 'node:net';
import { ProxySockets } from './proxy-sockets.ts';

const NO_PASSWORD = 0;
const CONNECT = 1;
const ADDRESS_LENGTH: Readonly<Record<number, number>> = { 1: 4, 4: 16 };

/** A SOCKS5 proxy (RFC 1928) without passwords, which records the requested targets. */
export class SocksProxy {
  /** Requested targets as "host:port". */
  readonly asked: string[] = [];
  readonly #sockets = new ProxySockets(
    createServer((client) => {
      this.#sockets.keep(client);
      this.#serve(client).catch(() => client.destroy());
    }),
  );

  /** Resolves with host:port. */
  start(): Promise<string> {
    return this.#sockets.listen();
  }

  stop(): Promise<void> {
    return this.#sockets.close();
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
    this.#sockets.tunnel(client, { host, port }, Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]));
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
