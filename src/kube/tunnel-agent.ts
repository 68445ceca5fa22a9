import http from 'node:http';
import https from 'node:https';
import { isIPv6 } from 'node:net';
import type { Duplex } from 'node:stream';
import { rootCertificates } from 'node:tls';
import { errorText } from './error-text.ts';

/** A proxy that neither opens a tunnel nor refuses in this time, in milliseconds, is given up. */
const CONNECT_TIMEOUT = 30_000;

/** What a request says of its connection. Node keeps `signal` from agents, so it is told them under this name too. */
export type TunnelOptions = https.RequestOptions & { readonly tunnelSignal?: AbortSignal };

type Created = (error: Error | null, socket: Duplex) => void;

/** What a proxy wants to know of us: user and password of its URL. */
export function proxyHeaders(proxy: URL): Record<string, string> {
  if (proxy.username === '' && proxy.password === '') return {};
  const user = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
  return { 'Proxy-Authorization': `Basic ${Buffer.from(user).toString('base64')}` };
}

/**
 * Connections to HTTPS servers through an HTTP proxy: each is a tunnel that the proxy opens on CONNECT (RFC 9110, 9.3.6), with TLS to the
 * server inside, so the proxy sees neither tokens nor certificates. Connections are kept and used again like any other agent's.
 */
export class TunnelAgent extends https.Agent {
  readonly #proxy: URL;
  readonly #opening = new Set<http.ClientRequest>();

  constructor(proxy: URL) {
    super({ keepAlive: true });
    this.#proxy = proxy;
  }

  override createConnection(options: TunnelOptions, created?: Created): Duplex | null | undefined {
    this.#openTunnel(options).then(
      (socket) => created?.(null, this.#secure(options, socket)),
      (error: unknown) => {
        const reason = new Error(`the proxy ${this.#proxy.host}: ${errorText(error)}`);
        // Node's own type wants a socket beside the error, and Node none.
        created?.(reason, undefined as unknown as Duplex);
      },
    );
    return undefined;
  }

  override destroy(): void {
    for (const request of this.#opening) request.destroy(new Error('closed'));
    super.destroy();
  }

  #secure(options: https.RequestOptions, socket: Duplex): Duplex {
    const secured = super.createConnection({ ...options, socket } as https.RequestOptions);
    if (secured === null || secured === undefined) throw new Error('no TLS socket was made');
    return secured;
  }

  async #openTunnel({ host, port, ca, tunnelSignal }: TunnelOptions): Promise<Duplex> {
    const proxy = this.#proxy;
    const name = String(host);
    const target = `${isIPv6(name) ? `[${name}]` : name}:${String(port)}`;
    const request = (proxy.protocol === 'https:' ? https : http).request({
      method: 'CONNECT',
      host: proxy.hostname.replace(/^\[(.*)\]$/, '$1'),
      port: proxy.port || (proxy.protocol === 'https:' ? 443 : 80),
      path: target,
      headers: { Host: target, ...proxyHeaders(proxy) },
      agent: false,
      // A proxy with a certificate of the cluster's authority, as client-go wants it, or of one that everybody knows.
      ...(proxy.protocol === 'https:' && ca !== undefined ? { ca: [...rootCertificates, ...[ca].flat()] } : {}),
    });
    const { promise, resolve, reject } = Promise.withResolvers<Duplex>();
    const timer = setTimeout(() => request.destroy(new Error('it did not answer in time')), CONNECT_TIMEOUT);
    // Node tells a request that waits for its connection nothing of its end.
    const giveUp = (): void => void request.destroy(new Error('given up'));
    tunnelSignal?.addEventListener('abort', giveUp, { once: true });
    this.#opening.add(request);
    request.on('connect', ({ statusCode, statusMessage }, socket, head) => {
      if (statusCode !== undefined && statusCode >= 200 && statusCode < 300) {
        if (head.length > 0) socket.unshift(head);
        resolve(socket);
      } else {
        socket.destroy();
        reject(new Error(`it refuses to connect to ${target}: ${statusCode} ${statusMessage}`));
      }
    });
    // A server that knows no CONNECT answers as to anything else.
    request.on('response', (response) => {
      response.destroy();
      reject(new Error(`it refuses to connect to ${target}: ${response.statusCode} ${response.statusMessage}`));
    });
    request.on('error', reject);
    request.end();
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      tunnelSignal?.removeEventListener('abort', giveUp);
      this.#opening.delete(request);
    }
  }
}
