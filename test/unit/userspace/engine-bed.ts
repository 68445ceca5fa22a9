import { type AddressInfo, type Server, type Socket, connect, createServer } from 'node:net';
import { type IpAddress, parseIp } from '../../../src/base/ip.ts';
import type { Port } from '../../../src/base/port.ts';
import { Engine } from '../../../src/userspace/engine.ts';
import { DEFAULT_LIMITS, type EngineLimits } from '../../../src/userspace/engine-limits.ts';
import type { RefusedListener } from '../../../src/userspace/engine-report.ts';
import type { Backend, ForwardedPort } from '../../../src/userspace/engine-update.ts';

export const LOCAL = parseIp('127.0.0.1') as IpAddress;

/** Returns a port that nothing uses. */
export async function freePort(): Promise<Port> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen({ host: '127.0.0.1', port: 0 }, resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port as Port;
}

/** A TCP server on an ephemeral port, which ends with the bed. */
export interface TestServer extends Backend {
  readonly sockets: Set<Socket>;
  readonly server: Server;
}

/** An engine with one TCP port on loopback. */
export class EngineBed implements AsyncDisposable {
  readonly engine: Engine;
  readonly refused: RefusedListener[] = [];
  readonly #servers: Server[] = [];
  readonly #clients: Socket[] = [];

  constructor(limits: Partial<EngineLimits> = {}) {
    this.engine = new Engine({
      limits: { ...DEFAULT_LIMITS, ...limits },
      onRefused: (refused) => this.refused.push(refused),
    });
  }

  /** Starts a server that calls `onConnection` for each connection. */
  async server(onConnection: (socket: Socket) => void, weight = 1): Promise<TestServer> {
    const sockets = new Set<Socket>();
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined);
      onConnection(socket);
    });
    await new Promise<void>((resolve) => server.listen({ host: '127.0.0.1', port: 0 }, resolve));
    this.#servers.push(server);
    const { port } = server.address() as AddressInfo;
    return { address: LOCAL, port: port as Port, weight, sockets, server };
  }

  /** Forwards a new port to endpoints. Returns the port that clients use. */
  async forward(endpoints: readonly Backend[], port: Partial<ForwardedPort> = {}): Promise<Port> {
    const listen = await freePort();
    const forwarded = forwardedPort(endpoints, port);
    const listener = { address: LOCAL, port: listen, protocol: forwarded.protocol, key: forwarded.key };
    await this.engine.apply({ whole: false, ports: [forwarded], listeners: [listener] });
    return listen;
  }

  /** A connection that may be half-open. Resolves when it is accepted. */
  async client(port: number): Promise<Socket> {
    const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true });
    socket.on('error', () => undefined);
    this.#clients.push(socket);
    await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return socket;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.engine.close();
    for (const socket of this.#clients) socket.destroy();
    for (const server of this.#servers) server.close();
    return Promise.resolve();
  }
}

export function forwardedPort(endpoints: readonly Backend[], port: Partial<ForwardedPort> = {}): ForwardedPort {
  const backends = endpoints.map(({ address, port: number, weight }) => ({ address, port: number, weight }));
  return {
    key: 'default/web',
    service: 'default/web',
    protocol: 'TCP',
    endpoints: backends,
    choice: 'rr',
    affinitySeconds: 0,
    ...port,
  };
}

/** Reads until the peer has ended its direction. */
export async function readAll(socket: Socket): Promise<string> {
  let text = '';
  for await (const chunk of socket) text += String(chunk);
  return text;
}

/** Resolves when a socket has closed, to the code of its error; undefined if it closed without one. */
export async function closed(socket: Socket): Promise<string | undefined> {
  let code: string | undefined;
  socket.once('error', (error: NodeJS.ErrnoException) => (code = error.code));
  socket.resume();
  await new Promise((resolve) => socket.once('close', resolve));
  return code;
}
