import { type AddressInfo, type Socket, connect, createServer } from 'node:net';
import { once } from 'node:events';

/** Forwards connections to a port of 127.0.0.1, and counts them and their bytes. */
export class CountingProxy implements AsyncDisposable {
  readonly #server = createServer((client) => this.#forward(client));
  readonly #sockets = new Set<Socket>();
  readonly #target: number;
  connections = 0;
  /** From the target to its clients. */
  bytes = 0;

  private constructor(target: number) {
    this.#target = target;
  }

  static async start(target: number): Promise<CountingProxy> {
    const proxy = new CountingProxy(target);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    const closed = once(this.#server, 'close');
    this.#server.close();
    await closed;
  }

  #forward(client: Socket): void {
    this.connections += 1;
    const target = connect(this.#target, '127.0.0.1');
    target.on('data', (chunk) => (this.bytes += chunk.length));
    for (const [from, to] of [
      [client, target],
      [target, client],
    ] as const) {
      this.#sockets.add(from);
      from.pipe(to);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
  }
}
