import http from 'node:http';
import https from 'node:https';
import { isIPv6 } from 'node:net';
import type { Duplex } from 'node:stream';
import { rootCertificates } from 'node:tls';
import { errorText } from '../../base/error-text.ts';

/** Timeout in milliseconds for the response of a proxy to CONNECT. */
const CONNECT_TIMEOUT = 7_500;

/** Node does not pass a request's `signal` to its agent, so requests set it under this name as well. */
export type TunnelOptions = https.RequestOptions & { readonly tunnelSignal?: AbortSignal };

type Created = (error: Error | null, socket: Duplex) => void;

/** Returns the Proxy-Authorization header for the user and password in the proxy's URL; no header if it has none. */
export function proxyHeaders(proxy: URL): Record<string, string> {
  if (proxy.username === '' && proxy.password === '') return {};
  const user = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
  return { 'Proxy-Authorization': `Basic ${Buffer.from(user).toString('base64')}` };
}

/**
 * Connects to HTTPS servers through a tunnel of an HTTP proxy (CONNECT, RFC 9110, 9.3.6). TLS to the server runs inside
 * the tunnel, so the proxy sees no credentials. Node's own proxy support (`proxyEnv`) neither takes a CA for the proxy
 * nor closes a tunnel that is still being opened when the request is aborted.
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
        const reason = new Error(`proxy ${this.#proxy.host}: ${errorText(error)}`);
        // The type requires a socket, Node does not.
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
    if (secured === null || secured === undefined) throw new Error('failed to create a TLS socket');
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
      // As in client-go, the cluster's CA may sign the proxy's certificate too.
      ...(proxy.protocol === 'https:' && ca !== undefined ? { ca: [...rootCertificates, ...[ca].flat()] } : {}),
    });
    const { promise, resolve, reject } = Promise.withResolvers<Duplex>();
    const timer = setTimeout(() => request.destroy(new Error('no response to CONNECT in time')), CONNECT_TIMEOUT);
    // Node does not stop the agent when its request is aborted.
    const giveUp = (): void => void request.destroy(new Error('request aborted'));
    tunnelSignal?.addEventListener('abort', giveUp, { once: true });
    this.#opening.add(request);
    request.on('connect', ({ statusCode, statusMessage }, socket, head) => {
      if (statusCode !== undefined && statusCode >= 200 && statusCode < 300) {
        if (head.length > 0) socket.unshift(head);
        resolve(socket);
      } else {
        socket.destroy();
        reject(new Error(`CONNECT to ${target} refused: ${statusCode} ${statusMessage}`));
      }
    });
    // A server that does not support CONNECT sends a regular response.
    request.on('response', (response) => {
      response.destroy();
      reject(new Error(`CONNECT to ${target} refused: ${response.statusCode} ${response.statusMessage}`));
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
