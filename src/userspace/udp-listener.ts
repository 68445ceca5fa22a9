import { type RemoteInfo, type Socket, createSocket } from 'node:dgram';
import { familyOf, formatIp } from '../base/ip.ts';
import type { Full } from './admission.ts';
import type { Listener } from './engine-update.ts';
import type { OpenListener } from './open-listener.ts';
import { UdpSession, sendDatagram } from './udp-session.ts';
import type { ServiceEndpoints } from './service-endpoints.ts';

/** What a UDP listener asks for each new client. */
export interface UdpClientHandler {
  /** Returns the port that serves a client; undefined if there is none. */
  portOf(client: RemoteInfo): ServiceEndpoints | undefined;
  /** Returns the function that ends an admitted client, or which limit is reached. */
  admit(service: ServiceEndpoints, client: RemoteInfo): (() => void) | Full;
  readonly idleMs: number;
}

/** Listens; rejects with the system's error. */
export async function listenUdp(
  { address, port, reusePort = false }: Listener,
  handler: UdpClientHandler,
): Promise<OpenListener> {
  const ipv6 = familyOf(address) === 6;
  const socket = createSocket({ type: ipv6 ? 'udp6' : 'udp4', ipv6Only: ipv6, reusePort });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  socket.once('error', reject);
  socket.bind({ address: formatIp(address), port }, resolve);
  try {
    await promise;
  } catch (error) {
    socket.close();
    throw error;
  }
  socket.off('error', reject);
  const clients = new UdpClients(socket, handler);
  socket.on('message', (datagram, client) => clients.received(datagram, client));
  // Such as an ICMP error of an answer: that client has gone.
  socket.on('error', () => undefined);
  return { close: () => clients.close() };
}

/** The clients of one listener, by address and port. */
class UdpClients {
  readonly #socket: Socket;
  readonly #handler: UdpClientHandler;
  /** The one from which nothing has come for the longest time first. */
  readonly #sessions = new Map<string, UdpSession>();

  constructor(socket: Socket, handler: UdpClientHandler) {
    this.#socket = socket;
    this.#handler = handler;
  }

  received(datagram: Buffer, client: RemoteInfo): void {
    // A sender without a port gets no answer.
    if (client.port === 0) return;
    const name = `${client.address} ${client.port}`;
    const session = this.#sessions.get(name) ?? this.#begin(name, client);
    if (session === undefined) return;
    this.#sessions.delete(name);
    this.#sessions.set(name, session);
    session.send(datagram);
  }

  close(): void {
    this.#socket.close();
    for (const session of this.#sessions.values()) session.reset();
  }

  #begin(name: string, client: RemoteInfo): UdpSession | undefined {
    const service = this.#handler.portOf(client);
    if (service === undefined) return undefined;
    const endpoint = service.choose(client.address, () => true);
    const release = endpoint && this.#admit(service, client);
    if (endpoint === undefined || release === undefined) {
      service.counters.refused += 1;
      return undefined;
    }
    return new UdpSession({
      client: client.address,
      service,
      endpoint,
      idleMs: this.#handler.idleMs,
      // An answer that cannot be sent is a lost datagram.
      answer: (datagram) => sendDatagram(this.#socket, datagram, () => undefined, client),
      onEnd: () => {
        release();
        this.#sessions.delete(name);
      },
    });
  }

  /** Where the Service or the client has as many as it may have, the stalest one of them gives way. */
  #admit(service: ServiceEndpoints, client: RemoteInfo): (() => void) | undefined {
    const release = this.#handler.admit(service, client);
    if (typeof release === 'function') return release;
    if (release !== 'service' && release !== 'client') return undefined;
    for (const each of this.#sessions.values()) {
      if (each.service !== service || (release === 'client' && each.client !== client.address)) continue;
      each.reset();
      const again = this.#handler.admit(service, client);
      return typeof again === 'function' ? again : undefined;
    }
    return undefined;
  }
}
