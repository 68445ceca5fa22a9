import type { Socket } from 'node:net';
import { formatIp } from '../base/ip.ts';
import { setTimer } from '../base/timer.ts';
import { AVOID_MS, CONNECT_TIMEOUTS_MS, type EngineLimits, MOST_ATTEMPTS } from './engine-limits.ts';
import type { Backend } from './engine-update.ts';
import { RelaySocket } from './relay-socket.ts';
import type { ServiceEndpoints, Session, UsedEndpoint } from './service-endpoints.ts';

type TcpLimits = Pick<EngineLimits, 'tcpIdleMs' | 'tcpHalfClosedIdleMs' | 'drainMs'>;

/** One TCP connection of a client. Nothing is read from the client until an endpoint is connected. */
export class TcpSession implements Session {
  readonly #client: RelaySocket;
  readonly #address: string;
  readonly #service: ServiceEndpoints;
  readonly #limits: TcpLimits;
  readonly #onEnd: () => void;
  readonly #tried = new Map<UsedEndpoint, 'silent' | 'refused'>();
  #endpoint: UsedEndpoint | undefined;
  #server: RelaySocket | undefined;
  #cancelAttempt: () => void = () => undefined;
  #cancelDrain: () => void = () => undefined;
  #attempts = 0;
  #isOver = false;

  /**
   * @param client does not read yet
   * @param onEnd called once, when both sides have closed
   */
  constructor(client: RelaySocket, service: ServiceEndpoints, limits: TcpLimits, onEnd: () => void) {
    this.#client = client;
    this.#address = client.remoteAddress ?? '';
    this.#service = service;
    this.#limits = limits;
    this.#onEnd = onEnd;
    service.begin(this);
    client.on('error', () => this.reset());
    client.once('close', () => this.#ended());
    this.#connectNext();
  }

  get bytes(): Session['bytes'] {
    return { in: this.#server?.bytesWritten ?? 0, out: this.#server?.bytesRead ?? 0 };
  }

  endpointLeft(): void {
    this.#cancelDrain();
    const { drainMs = this.#limits.drainMs } = this.#service.port;
    if (drainMs > 0) this.#cancelDrain = setTimer(() => this.reset(), drainMs);
  }

  #connectNext(): void {
    const endpoint = this.#nextEndpoint();
    if (endpoint === undefined) {
      this.#service.counters.failedConnections += 1;
      this.reset();
      return;
    }
    const last = CONNECT_TIMEOUTS_MS.length - 1;
    const timeout = CONNECT_TIMEOUTS_MS[Math.min(this.#attempts, last)];
    this.#attempts += 1;
    const server = connectTo(endpoint.backend);
    this.#server = server;
    const failed = (reason: 'silent' | 'refused'): void => {
      this.#cancelAttempt();
      // It was for the endpoint that failed.
      this.#cancelDrain();
      server
        .removeAllListeners()
        .on('error', () => undefined)
        .destroy();
      endpoint.sessions.delete(this);
      this.#tried.set(endpoint, reason);
      if (reason === 'silent') endpoint.avoidedUntil = performance.now() + AVOID_MS;
      this.#service.counters.failedConnects += 1;
      if (!this.#client.destroyed) this.#connectNext();
    };
    const timer = setTimeout(() => failed('silent'), timeout);
    this.#cancelAttempt = () => clearTimeout(timer);
    // An attempt counts, so that clients that arrive at the same time choose different endpoints.
    endpoint.sessions.add(this);
    this.#endpoint = endpoint;
    server.once('error', () => failed('refused'));
    server.once('connect', () => {
      this.#cancelAttempt();
      server.removeAllListeners('error');
      this.#forward(server, endpoint);
    });
  }

  /**
   * Each endpoint is tried once, those that were silent lately last. Then those that did not answer in time are tried again, until
   * all timeouts have been used. There are at most MOST_ATTEMPTS attempts.
   */
  #nextEndpoint(): UsedEndpoint | undefined {
    if (this.#attempts >= MOST_ATTEMPTS) return undefined;
    const now = performance.now();
    const isFresh = (endpoint: UsedEndpoint): boolean => !this.#tried.has(endpoint);
    const fresh =
      this.#service.choose(this.#address, (endpoint) => isFresh(endpoint) && endpoint.avoidedUntil <= now) ??
      this.#service.choose(this.#address, isFresh);
    if (fresh !== undefined || this.#attempts >= CONNECT_TIMEOUTS_MS.length) return fresh;
    return this.#service.choose(this.#address, (endpoint) => this.#tried.get(endpoint) === 'silent');
  }

  #forward(server: RelaySocket, endpoint: UsedEndpoint): void {
    const client = this.#client;
    server.on('error', () => this.reset());
    server.once('close', () => this.#ended());
    if (client.destroyed) {
      this.reset();
      return;
    }
    this.#service.connected(this.#address, endpoint, this);
    // The endpoint may have left during the attempt.
    if (!this.#service.has(endpoint)) this.endpointLeft();
    const halfClosed = (): void => void client.setTimeout(this.#limits.tcpHalfClosedIdleMs);
    client.once('end', halfClosed);
    server.once('end', halfClosed);
    client.setTimeout(this.#limits.tcpIdleMs);
    client.once('timeout', () => this.reset());
    client.passTo(server);
    server.passTo(client);
  }

  /** Ends both sides with a reset. */
  reset(): void {
    this.#cancelAttempt();
    resetSocket(this.#client);
    if (this.#server !== undefined) resetSocket(this.#server);
    this.#ended();
  }

  /** A side closes without an error only after both directions have ended, and been written. */
  #ended(): void {
    if (!this.#client.destroyed || this.#server?.destroyed === false) return;
    if (this.#isOver) return;
    this.#isOver = true;
    this.#cancelDrain();
    this.#service.end(this, this.#endpoint);
    this.#onEnd();
  }
}

/**
 * Closes a socket with a reset. One that is connecting would wait for that first. While a shutdown is under way, after all
 * has been written, libuv refuses a reset (uv_tcp_close_reset: EINVAL), and Node.js then never closes the socket.
 */
function resetSocket(socket: Socket): void {
  const isShutting = socket.writableEnded && !socket.writableFinished && socket.writableLength === 0;
  if (socket.connecting || isShutting) socket.destroy();
  else socket.resetAndDestroy();
}

function connectTo({ address, port }: Backend): RelaySocket {
  const socket = new RelaySocket();
  socket.connect({ host: formatIp(address), port });
  return socket;
}
