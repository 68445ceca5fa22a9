import http from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import https from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode, errorText } from './error-text.ts';
import { loadKubeConfig } from './kube-config.ts';
import type { KubeConfigOptions, LoadedKubeConfig } from './kube-config.ts';
import { RateLimit } from './rate-limit.ts';
import type { RateLimitOptions } from './rate-limit.ts';
import { TunnelAgent, type TunnelOptions, proxyHeaders } from './tunnel-agent.ts';

/** One finished request, for metrics. `code` is the status, or "<error>" when none arrived. */
export interface RequestObservation {
  readonly method: string;
  readonly host: string;
  readonly code: string;
  /** Until the response headers. */
  readonly seconds: number;
  /** Of the body that was sent; undefined without one. */
  readonly requestBytes?: number;
}

/** Who counts requests. Hosts are those of the URL, with the port. */
export interface ApiObserver {
  apiRequestFinished(observation: RequestObservation): void;
  /** A response body came to its end; not told of watches, whose length means nothing. */
  apiResponseRead(method: string, host: string, bytes: number): void;
  /** The same request is made again, for there was no answer ("<error>"). */
  apiRequestRetried(method: string, host: string, code: string): void;
  apiRateLimiterWaited(method: string, host: string, seconds: number): void;
}

export interface ApiClientOptions extends KubeConfigOptions {
  readonly userAgent: string;
  readonly observer?: ApiObserver;
  /** No limit by default. */
  readonly rateLimit?: RateLimitOptions;
  /** Milliseconds to wait for response headers; 60,000 by default. */
  readonly headersTimeoutMs?: number;
}

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH';
  /** Path and query. */
  readonly path: string;
  readonly signal: AbortSignal;
  readonly body?: { readonly type: string; readonly text: string };
  /** The answer goes on for as long as it may. As in kube-proxy no rate limit holds it up: watches have a back-off of their own. */
  readonly isWatch?: boolean;
}

/** The headers of a response and its open body; or why there is none. */
export type ApiReply =
  | {
      readonly ok: true;
      readonly status: number;
      readonly headers: IncomingHttpHeaders;
      readonly body: IncomingMessage;
    }
  | { readonly ok: false; readonly kind: 'credentials' | 'unavailable'; readonly message: string };

type Loaded = Extract<LoadedKubeConfig, { ok: true }>;
type HttpOptions = Omit<TunnelOptions, 'headers'> & { readonly headers: Readonly<Record<string, string>> };

const GO_ARCH: Readonly<Record<string, string>> = { x64: 'amd64', ia32: '386' };

/** How the API server's logs and metrics know a kube-proxy. */
export function userAgent(version: string): string {
  return `kube-proxy/v${version.replace(/^v/, '').split('-')[0]} (${process.platform}/${GO_ARCH[process.arch] ?? process.arch}) kube-ipvs-proxy`;
}

/**
 * HTTP to one API server. Certificates and tokens are read anew for each request (tokens at most once a minute), and the
 * kubeconfig itself after `refresh`, so that a rotation never needs a restart.
 */
export class ApiClient {
  readonly #options: ApiClientOptions;
  readonly #httpsAgent = new https.Agent({ keepAlive: true });
  readonly #httpAgent = new http.Agent({ keepAlive: true });
  readonly #rateLimit: RateLimit;
  /** Through the proxy that was last used; another one closes it. */
  #tunnels: { readonly proxy: string; readonly agent: TunnelAgent } | undefined;
  #loaded: Loaded;

  private constructor(options: ApiClientOptions, loaded: Loaded) {
    this.#options = options;
    this.#rateLimit = new RateLimit(options.rateLimit ?? { qps: -1, burst: 1 }, performance.now());
    this.#loaded = loaded;
  }

  static create(
    options: ApiClientOptions,
  ): { readonly ok: true; readonly client: ApiClient } | { readonly ok: false; readonly error: string } {
    const loaded = loadKubeConfig(options);
    return loaded.ok ? { ok: true, client: new ApiClient(options, loaded) } : loaded;
  }

  /** The API server's URL. */
  get server(): string {
    return this.#loaded.cluster.server;
  }

  /** Reads configuration and credentials anew; returns what is wrong with them, keeping the old ones. */
  refresh(): string | undefined {
    const loaded = loadKubeConfig(this.#options);
    if (!loaded.ok) return loaded.error;
    this.#loaded = loaded;
    return undefined;
  }

  /** Closes idle connections. Requests under way end by their signals. */
  close(): void {
    this.#httpsAgent.destroy();
    this.#httpAgent.destroy();
    this.#tunnels?.agent.destroy();
  }

  async request(request: ApiRequest): Promise<ApiReply> {
    const { method, body } = request;
    const url = new URL(this.server + request.path);
    const { host } = url;
    const { observer } = this.#options;
    if (request.isWatch !== true && !(await this.#waitForTurn(request, host))) {
      return { ok: false, kind: 'unavailable', message: 'given up while it waited for --kube-api-qps' };
    }
    const started = performance.now();
    const reply = await this.#attempt(request, url, true);
    observer?.apiRequestFinished({
      method,
      host,
      code: reply.ok ? String(reply.status) : '<error>',
      seconds: (performance.now() - started) / 1000,
      ...(body === undefined ? {} : { requestBytes: Buffer.byteLength(body.text) }),
    });
    if (observer !== undefined && reply.ok && request.isWatch !== true) {
      countBytes(reply.body, (bytes) => observer.apiResponseRead(method, host, bytes));
    }
    return reply;
  }

  /** False when the request was given up meanwhile. */
  async #waitForTurn({ method, signal }: ApiRequest, host: string): Promise<boolean> {
    const wait = this.#rateLimit.take(performance.now());
    if (wait > 0) {
      try {
        await sleep(wait, undefined, { signal });
      } catch {
        this.#rateLimit.giveBack();
        return false;
      }
    }
    this.#options.observer?.apiRateLimiterWaited(method, host, wait / 1000);
    return true;
  }

  async #attempt(request: ApiRequest, url: URL, mayRetry: boolean): Promise<ApiReply> {
    let options: HttpOptions;
    try {
      options = await this.#withinTime(request.signal, this.#requestOptions(request));
    } catch (error) {
      return { ok: false, kind: 'credentials', message: errorText(error) };
    }
    return await new Promise((settle) => {
      const outgoing = this.#open(url, options);
      const timeout = setTimeout(
        () => outgoing.destroy(new Error('the server did not answer in time')),
        this.#options.headersTimeoutMs ?? 60_000,
      );
      outgoing.on('socket', (socket) => socket.setKeepAlive(true, 30_000));
      outgoing.on('response', (body) => {
        clearTimeout(timeout);
        settle({ ok: true, status: body.statusCode ?? 0, headers: body.headers, body });
      });
      outgoing.on('error', (error) => {
        clearTimeout(timeout);
        // The server closed an idle connection in the moment in which it was used again: no fault of anyone.
        if (mayRetry && outgoing.reusedSocket && errorCode(error) === 'ECONNRESET' && !request.signal.aborted) {
          this.#options.observer?.apiRequestRetried(request.method, url.host, '<error>');
          settle(this.#attempt(request, url, false));
        } else {
          settle({ ok: false, kind: 'unavailable', message: errorText(error) });
        }
      });
      outgoing.end(request.body?.text);
    });
  }

  /** Credentials may come from a program of somebody else's, which need not ever end. */
  async #withinTime<T>(signal: AbortSignal, credentials: Promise<T>): Promise<T> {
    const tooLate = Promise.withResolvers<never>();
    const giveUp = (): void => tooLate.reject(new Error('they did not come in time'));
    const timer = setTimeout(giveUp, this.#options.headersTimeoutMs ?? 60_000);
    signal.addEventListener('abort', giveUp, { once: true });
    try {
      return await Promise.race([credentials, tooLate.promise]);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', giveUp);
    }
  }

  #open(url: URL, options: HttpOptions): http.ClientRequest {
    const { proxy } = this.#loaded;
    if (url.protocol === 'https:') return https.request(url, options);
    if (proxy === undefined || proxy.protocol.startsWith('socks')) return http.request(url, options);
    // Nothing to tunnel: the proxy asks for us, and is told the whole URL.
    return (proxy.protocol === 'https:' ? https : http).request(proxy, {
      ...options,
      agent: proxy.protocol === 'https:' ? this.#httpsAgent : this.#httpAgent,
      path: url.href,
      headers: { ...options.headers, Host: url.host, ...proxyHeaders(proxy) },
    });
  }

  /** The agent for our requests; undefined where client-node has set one, for SOCKS. */
  #agent(): http.Agent | undefined {
    const { cluster, proxy } = this.#loaded;
    if (cluster.server.startsWith('http:') && proxy?.protocol.startsWith('socks') !== true) return this.#httpAgent;
    if (proxy === undefined) return this.#httpsAgent;
    if (proxy.protocol.startsWith('socks')) return undefined;
    if (this.#tunnels?.proxy !== proxy.href) {
      this.#tunnels?.agent.destroy();
      this.#tunnels = { proxy: proxy.href, agent: new TunnelAgent(proxy) };
    }
    return this.#tunnels.agent;
  }

  async #requestOptions({ method, signal, body }: ApiRequest): Promise<HttpOptions> {
    const headers: Record<string, string> = { Accept: 'application/json', 'User-Agent': this.#options.userAgent };
    if (body !== undefined) {
      headers['Content-Type'] = body.type;
      headers['Content-Length'] = String(Buffer.byteLength(body.text));
    }
    const options: HttpOptions = { method, signal, tunnelSignal: signal, headers };
    const { config } = this.#loaded;
    await config.applyToHTTPSOptions(options);
    // A file's last newline is no part of a token, and a header cannot hold it.
    const authorization = headers['Authorization'];
    if (authorization !== undefined) headers['Authorization'] = authorization.trim();
    // client-node keeps one agent with the certificates that it first saw; ours takes those of each request.
    const agent = this.#agent();
    if (agent !== undefined) options.agent = agent;
    return options;
  }
}

/** Looks on while somebody else reads a body: paused, so that nothing flows before that. */
function countBytes(body: IncomingMessage, onEnd: (bytes: number) => void): void {
  let bytes = 0;
  body.pause();
  body.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  body.once('end', () => onEnd(bytes));
}
