import { type Socket, connect } from 'node:net';
import { formatIp } from '../base/ip.ts';
import { setTimer } from '../base/timer.ts';
import { CONNECT_TIMEOUTS_MS, type EngineLimits } from './engine-limits.ts';
import type { Backend } from './engine-update.ts';
import type { ServiceEndpoints, Session, UsedEndpoint } from './service-endpoints.ts';

/** When the kernel begins to probe a silent peer. */
export const KEEP_ALIVE_MS = 60_000;

type TcpLimits = Pick<EngineLimits, 'tcpIdleMs' | 'tcpHalfClosedIdleMs' | 'drainMs'>;

/** One TCP connection of a client. Nothing is read from the client until an endpoint is connected. */
export class TcpSession implements Session {
  readonly #client: Socket;
  readonly #address: string;
  readonly #service: ServiceEndpoints;
  readonly #limits: TcpLimits;
  readonly #tried = new Map<UsedEndpoint, 'silent' | 'refused'>();
  #endpoint: UsedEndpoint | undefined;
  #server: Socket | undefined;
  #cancelAttempt: () => void = () => undefined;
  #cancelDrain: () => void = () => undefined;
  #attempts = 0;

  /** @param client a paused socket, half-open allowed */
  constructor(client: Socket, service: ServiceEndpoints, limits: TcpLimits) {
    this.#client = client;
    this.#address = client.remoteAddress ?? '';
    this.#service = service;
    this.#limits = limits;
    service.begin(this);
    client.once('error', () => this.reset());
    client.once('close', () => this.#ended());
    this.#connectNext();
  }

  get bytes(): Session['bytes'] {
    return { in: this.#server?.bytesWritten ?? 0, out: this.#server?.bytesRead ?? 0 };
  }

  endpointLeft(): void {
    if (this.#limits.drainMs > 0) this.#cancelDrain = setTimer(() => this.reset(), this.#limits.drainMs);
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
      server
        .removeAllListeners()
        .on('error', () => undefined)
        .destroy();
      endpoint.sessions.delete(this);
      this.#tried.set(endpoint, reason);
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

  /** Each endpoint is tried once; then those that did not answer in time again, until all timeouts have been used. */
  #nextEndpoint(): UsedEndpoint | undefined {
    const fresh = this.#service.choose(this.#address, (endpoint) => !this.#tried.has(endpoint));
    if (fresh !== undefined || this.#attempts >= CONNECT_TIMEOUTS_MS.length) return fresh;
    return this.#service.choose(this.#address, (endpoint) => this.#tried.get(endpoint) === 'silent');
  }

  #forward(server: Socket, endpoint: UsedEndpoint): void {
    const client = this.#client;
    this.#service.connected(this.#address, endpoint, this);
    // The endpoint may have left during the attempt.
    if (!this.#service.has(endpoint)) this.endpointLeft();
    server.once('error', () => this.reset());
    server.once('close', () => this.#ended());
    const halfClosed = (): void => void client.setTimeout(this.#limits.tcpHalfClosedIdleMs);
    client.once('end', halfClosed);
    server.once('end', halfClosed);
    client.setTimeout(this.#limits.tcpIdleMs);
    client.once('timeout', () => this.reset());
    client.pipe(server);
    server.pipe(client);
  }

  /** Ends both sides with a reset. */
  reset(): void {
    this.#cancelAttempt();
    this.#client.resetAndDestroy();
    // A socket that is connecting would wait for that before its reset.
    if (this.#server?.connecting === true) this.#server.destroy();
    else this.#server?.resetAndDestroy();
    this.#ended();
  }

  /** A side closes without an error only after both directions have ended. */
  #ended(): void {
    if (!this.#client.destroyed || this.#server?.destroyed === false) {
      // The other side still has to send what was buffered.
      if (this.#client.destroyed && this.#server?.connecting === true) this.reset();
      return;
    }
    this.#cancelDrain();
    this.#endpoint?.sessions.delete(this);
    this.#service.end(this);
  }
}

function connectTo({ address, port }: Backend): Socket {
  return connect({
    host: formatIp(address),
    port,
    allowHalfOpen: true,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_MS,
  });
}
