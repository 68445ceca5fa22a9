import { type Socket, createSocket } from 'node:dgram';
import { familyOf, formatIp } from '../base/ip.ts';
import { errorCode } from '../base/text/error-text.ts';
import { setTimer } from '../base/timer.ts';
import type { ServiceEndpoints, Session, UsedEndpoint } from './service-endpoints.ts';

/** Errors of the endpoint, most of them from ICMP. */
const UNREACHABLE: ReadonlySet<string> = new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH']);

/** Datagrams that wait for the socket to be connected. More are lost, as in a full queue of the kernel. */
const MOST_WAITING = 16;

/** Bytes that may wait in a socket's queue, which Node.js does not bound. More are lost, as in a full queue of the kernel. */
const MOST_QUEUED = 256 * 1024;

/**
 * Sends a datagram, to `to` or to the peer of a connected socket. Returns false if it was dropped: too much waits, or
 * the socket is closed.
 */
export function sendDatagram(
  socket: Socket,
  datagram: Buffer,
  onSent: (error: Error | null) => void,
  to?: { readonly address: string; readonly port: number },
): boolean {
  try {
    if (socket.getSendQueueSize() > MOST_QUEUED) return false;
    if (to === undefined) socket.send(datagram, onSent);
    else socket.send(datagram, to.port, to.address, onSent);
    return true;
  } catch {
    return false;
  }
}

export interface UdpSessionOptions {
  readonly client: string;
  readonly service: ServiceEndpoints;
  readonly endpoint: UsedEndpoint;
  readonly idleMs: number;
  /** Sends a datagram of the endpoint to the client. Returns whether it was not dropped. */
  readonly answer: (datagram: Buffer) => boolean;
  readonly onEnd: () => void;
}

/** One UDP client of a Service port: a socket that is connected to its endpoint. */
export class UdpSession implements Session {
  readonly bytes = { in: 0, out: 0 };
  readonly #options: UdpSessionOptions;
  readonly #socket: Socket;
  #waiting: Buffer[] | undefined = [];
  #usedAt = performance.now();
  #cancelTimer: () => void = () => undefined;
  #ended = false;

  constructor(options: UdpSessionOptions) {
    this.#options = options;
    const { service, endpoint, client, idleMs } = options;
    service.begin(this);
    service.connected(client, endpoint, this);
    const { address, port } = endpoint.backend;
    this.#socket = createSocket(familyOf(address) === 4 ? 'udp4' : 'udp6');
    // Also the ICMP errors of datagrams sent before: the next datagram of the client chooses an endpoint again.
    this.#socket.on('error', () => this.#failed());
    this.#socket.on('message', (datagram) => {
      this.#usedAt = performance.now();
      if (options.answer(datagram)) this.bytes.out += datagram.length;
      else this.#dropped();
    });
    this.#socket.connect(port, formatIp(address), (error?: Error) => {
      if (error === undefined || error === null) this.#connected();
      else this.#failed();
    });
    if (idleMs > 0) this.#awaitIdle(idleMs);
  }

  get service(): ServiceEndpoints {
    return this.#options.service;
  }

  /** Its address. */
  get client(): string {
    return this.#options.client;
  }

  send(datagram: Buffer): void {
    this.#usedAt = performance.now();
    if (this.#waiting === undefined) this.#forward(datagram);
    else if (this.#waiting.length < MOST_WAITING) this.#waiting.push(datagram);
    else this.#dropped();
  }

  endpointLeft(): void {
    this.reset();
  }

  reset(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#cancelTimer();
    this.#socket.close();
    this.#options.service.end(this, this.#options.endpoint);
    this.#options.onEnd();
  }

  #connected(): void {
    const waiting = this.#waiting ?? [];
    this.#waiting = undefined;
    if (!this.#ended) for (const datagram of waiting) this.#forward(datagram);
  }

  #forward(datagram: Buffer): void {
    // Other errors, such as EMSGSIZE, lose this datagram only.
    const isSent = sendDatagram(this.#socket, datagram, (error) => {
      if (error !== null && UNREACHABLE.has(errorCode(error) ?? '')) this.#failed();
    });
    if (isSent) this.bytes.in += datagram.length;
    else this.#dropped();
  }

  #dropped(): void {
    this.#options.service.counters.droppedDatagrams += 1;
  }

  #failed(): void {
    if (this.#ended) return;
    this.#options.service.counters.failedConnects += 1;
    this.#options.service.failed(this.#options.client);
    this.reset();
  }

  #awaitIdle(ms: number): void {
    this.#cancelTimer = setTimer(() => {
      const left = this.#usedAt + this.#options.idleMs - performance.now();
      if (left <= 0) this.reset();
      else this.#awaitIdle(left);
    }, ms);
  }
}
