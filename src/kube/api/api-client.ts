import http from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import https from 'node:https';
import { rootCertificates } from 'node:tls';
import { sleep } from '../../base/timer.ts';
import type { ApiObserver } from '../../observe/api-observer.ts';
import { connectionText } from './connection-text.ts';
import { errorCode, errorText } from '../../base/text/error-text.ts';
import {
  type HttpOptions,
  type KubeConfigOptions,
  type LoadedKubeConfig,
  authorize,
  loadKubeConfig,
} from '../kubeconfig/kube-config.ts';
import { isReadable, JSON_TYPE } from '../protobuf/media-type.ts';
import { RateLimit, type RateLimitOptions } from '../../base/rate-limit.ts';
import { RequestProgress } from './request-progress.ts';

export interface ApiClientOptions extends KubeConfigOptions {
  /** As in KubeConfigOptions, or several URLs, separated by commas: the first one that is reached is kept until it fails. */
  readonly master: string;
  /** Called when a server was not reached, before the next one is tried. */
  readonly onServerChange?: (change: { readonly from: string; readonly to: string; readonly reason: string }) => void;
  /** Accept header of requests that can read protobuf; JSON by default. */
  readonly accept?: string;
  /** Called once, when a server has refused `accept`; from then on, all requests ask for JSON. */
  readonly onJsonOnly?: (reason: string) => void;
  readonly userAgent: string;
  readonly observer?: ApiObserver;
  /** Client-side rate limit; unlimited by default. */
  readonly rateLimit?: RateLimitOptions;
  /** Timeout in milliseconds for DNS, TCP and TLS together; 8,000 by default. */
  readonly connectTimeoutMs?: number;
  /** Milliseconds to wait for response headers; 60,000 by default. */
  readonly headersTimeoutMs?: number;
  /** Milliseconds without response headers after which `onSlow` is called; 9,000 by default. */
  readonly slowMs?: number;
}

export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH';
  readonly path: string;
  readonly signal: AbortSignal;
  readonly body?: { readonly type: string; readonly text: string };
  /** Watches bypass the rate limit, as in kube-proxy, because the reflector backs off between watches. */
  readonly isWatch?: boolean;
  /** Whether the reader of the response reads protobuf too. */
  readonly readsProtobuf?: boolean;
  /** Called at most once, if no response has arrived after `slowMs`. The request continues. */
  readonly onSlow?: (reason: string) => void;
}

/** What is known of one address of the API server. Times are those of performance.now(). */
export interface ServerState {
  readonly server: string;
  readonly inUse: boolean;
  readonly answeredAt?: number;
  /** The last failure, unless it has answered since. */
  readonly failed?: { readonly at: number; readonly reason: string };
}

/** A response whose body has not been read yet, or the reason why there is no response. */
export type ApiReply =
  | {
      readonly ok: true;
      readonly status: number;
      readonly headers: IncomingHttpHeaders;
      readonly body: IncomingMessage;
    }
  | { readonly ok: false; readonly kind: 'credentials' | 'unavailable'; readonly message: string };

type Loaded = Extract<LoadedKubeConfig, { ok: true }>;

const GO_ARCH: Readonly<Record<string, string>> = { x64: 'amd64', ia32: '386' };

/** Returns a User-Agent that the API server's logs and metrics attribute to kube-proxy. */
export function userAgent(version: string): string {
  return `kube-proxy/v${version.replace(/^v/, '').split('-')[0]} (${process.platform}/${GO_ARCH[process.arch] ?? process.arch}) kube-ipvs-proxy`;
}

/**
 * HTTP client for the API server, which may have several addresses. Credentials can be rotated without a restart: certificates and token files are read
 * again for each request, and the kubeconfig on `refresh`.
 */
export class ApiClient {
  readonly #options: ApiClientOptions;
  readonly #httpsAgent = new https.Agent({ keepAlive: true });
  readonly #httpAgent = new http.Agent({ keepAlive: true });
  readonly #rateLimit: RateLimit;
  readonly #masters: readonly string[];
  /** Index of the address in use. */
  #current = 0;
  readonly #known: Pick<ServerState, 'answeredAt' | 'failed'>[];
  #accept: string;
  #loaded: Loaded;

  private constructor(options: ApiClientOptions, loaded: Loaded) {
    this.#options = options;
    this.#masters = mastersOf(options);
    this.#known = this.#masters.map(() => ({}));
    this.#rateLimit = new RateLimit(options.rateLimit ?? { qps: -1, burst: 1 }, performance.now());
    this.#accept = options.accept ?? JSON_TYPE;
    this.#loaded = loaded;
  }

  static create(
    options: ApiClientOptions,
  ): { readonly ok: true; readonly client: ApiClient } | { readonly ok: false; readonly error: string } {
    const all = mastersOf(options).map((master) => loadKubeConfig({ ...options, master }));
    const wrong = all.find((loaded) => !loaded.ok);
    if (wrong !== undefined) return wrong;
    const [first] = all;
    if (first?.ok !== true) throw new Error('no address was loaded');
    return { ok: true, client: new ApiClient(options, first) };
  }

  get server(): string {
    return this.#loaded.cluster.server;
  }

  /** All addresses, for people. */
  get servers(): string {
    return this.#masters.length === 1 ? this.server : this.#masters.join(', ');
  }

  /** Returns what is known of each address; empty if there is only one. */
  serverStates(): readonly ServerState[] {
    if (this.#masters.length === 1) return [];
    return this.#masters.map((server, at) => ({ server, inUse: at === this.#current, ...this.#known[at] }));
  }

  /** Reads the configuration and credentials again. On failure, keeps the old ones and returns the error. */
  refresh(): string | undefined {
    const loaded = loadKubeConfig({ ...this.#options, master: this.#masters[this.#current] ?? '' });
    if (!loaded.ok) return loaded.error;
    this.#loaded = loaded;
    return undefined;
  }

  /** Closes all connections, except those through a proxy, which end with their request. */
  close(): void {
    this.#httpsAgent.destroy();
    this.#httpAgent.destroy();
  }

  /** Asks each address once, beginning with the one that answered last. */
  async request(request: ApiRequest): Promise<ApiReply> {
    for (let left = this.#masters.length; ; left--) {
      const asked = this.server;
      const at = this.#current;
      const reply = await this.#requestReadable(request);
      this.#note(at, reply, request.signal);
      if (reply.ok || reply.kind !== 'unavailable' || request.signal.aborted || this.#masters.length === 1)
        return reply;
      // Another request may have moved on already.
      if (asked === this.server) this.#tryNext(reply.message);
      if (left === 1) return reply;
    }
  }

  #note(at: number, reply: ApiReply, { aborted }: AbortSignal): void {
    const now = performance.now();
    if (reply.ok) this.#known[at] = { answeredAt: now };
    else if (reply.kind === 'unavailable' && !aborted) {
      this.#known[at] = { ...this.#known[at], failed: { at: now, reason: reply.message } };
    }
  }

  #tryNext(reason: string): void {
    const from = this.server;
    this.#current = (this.#current + 1) % this.#masters.length;
    if (this.refresh() === undefined) this.#options.onServerChange?.({ from, to: this.server, reason });
  }

  /** Asks once more, for JSON, if the server refuses what we accept or returns what we cannot read. */
  async #requestReadable(request: ApiRequest): Promise<ApiReply> {
    const asked = this.#acceptOf(request);
    const reply = await this.#requestOnce(request);
    if (!reply.ok || asked === JSON_TYPE) return reply;
    const { status, headers } = reply;
    const type = headers['content-type'];
    const refused = status === 406 || status === 415;
    if (!refused && (status !== 200 || isReadable(type))) return reply;
    reply.body.destroy();
    // Another request may have been refused before.
    if (this.#accept !== JSON_TYPE) {
      this.#accept = JSON_TYPE;
      this.#options.onJsonOnly?.(refused ? `status ${status}` : `content type ${type}`);
    }
    return this.#requestOnce(request);
  }

  #acceptOf({ readsProtobuf }: ApiRequest): string {
    return readsProtobuf === true ? this.#accept : JSON_TYPE;
  }

  async #requestOnce(request: ApiRequest): Promise<ApiReply> {
    const { method, body } = request;
    const url = new URL(this.server + request.path);
    const { host } = url;
    const { observer, slowMs = 9_000 } = this.#options;
    if (request.isWatch !== true && !(await this.#waitForTurn(request, host))) {
      return { ok: false, kind: 'unavailable', message: 'cancelled while waiting for the rate limit (--kube-api-qps)' };
    }
    const progress = new RequestProgress(url, this.#loaded.proxy !== undefined);
    const slow = setTimeout(() => request.onSlow?.(progress.slow(slowMs)), slowMs);
    const started = performance.now();
    const reply = await this.#ask(request, url, progress, true);
    clearTimeout(slow);
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

  /** Waits for the rate limit. Returns false if the request is cancelled during the wait. */
  async #waitForTurn({ method, signal }: ApiRequest, host: string): Promise<boolean> {
    const wait = this.#rateLimit.take(performance.now());
    if (wait > 0) {
      try {
        await sleep(wait, signal);
      } catch {
        this.#rateLimit.giveBack();
        return false;
      }
    }
    this.#options.observer?.apiRateLimiterWaited(method, host, wait / 1000);
    return true;
  }

  async #ask(request: ApiRequest, url: URL, progress: RequestProgress, mayRetry: boolean): Promise<ApiReply> {
    const tunnel = new AbortController();
    let options: HttpOptions;
    try {
      options = await this.#withinTime(request.signal, this.#requestOptions(request, tunnel.signal));
    } catch (error) {
      return { ok: false, kind: 'credentials', message: errorText(error) };
    }
    const { connectTimeoutMs = 8_000, headersTimeoutMs = 60_000 } = this.#options;
    return await new Promise((settle) => {
      const outgoing = this.#open(url, options);
      progress.follow(outgoing);
      const fail = (message: string): void => {
        stopTimers();
        // Settle before destroy(): while an agent is opening a tunnel, destroy() emits no error on the request.
        settle({ ok: false, kind: 'unavailable', message });
        outgoing.destroy();
        tunnel.abort();
      };
      const giveUp = (after: number): void => fail(progress.missing(after));
      const connecting = setTimeout(() => progress.connected || giveUp(connectTimeoutMs), connectTimeoutMs);
      const answering = setTimeout(giveUp, headersTimeoutMs, headersTimeoutMs);
      const stopTimers = (): void => {
        clearTimeout(connecting);
        clearTimeout(answering);
      };
      const proxy = `proxy ${this.#loaded.proxy?.host}`;
      outgoing.on('proxyConnect', ({ statusCode, statusText }: { statusCode: number; statusText: string }) => {
        if (statusCode !== 200) fail(`${proxy}: CONNECT to ${url.host} refused: ${statusCode} ${statusText}`);
      });
      outgoing.on('socket', (socket) => socket.setKeepAlive(true, 30_000));
      outgoing.on('response', (body) => {
        stopTimers();
        settle({ ok: true, status: body.statusCode ?? 0, headers: body.headers, body });
      });
      outgoing.on('error', (error) => {
        // The server closed the idle connection just as we reused it: retry once on another connection.
        if (mayRetry && outgoing.reusedSocket && errorCode(error) === 'ECONNRESET' && !request.signal.aborted) {
          stopTimers();
          this.#options.observer?.apiRequestRetried(request.method, url.host, '<error>');
          settle(this.#ask(request, url, progress, false));
        } else {
          const text = connectionText(error, url);
          fail(progress.atProxy ? `${proxy}: ${text}` : text);
        }
      });
      outgoing.end(request.body?.text);
    });
  }

  /** Limits the time to load credentials, because an exec plugin may hang. */
  async #withinTime<T>(signal: AbortSignal, credentials: Promise<T>): Promise<T> {
    const tooLate = Promise.withResolvers<never>();
    const limitMs = this.#options.headersTimeoutMs ?? 60_000;
    const giveUp = (): void => tooLate.reject(new Error(`no result within ${limitMs / 1000} s`));
    const timer = setTimeout(giveUp, limitMs);
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
    // Plain HTTP needs no tunnel: send the absolute URL to the proxy.
    return (proxy.protocol === 'https:' ? https : http).request(proxy, {
      ...options,
      agent: proxy.protocol === 'https:' ? this.#httpsAgent : this.#httpAgent,
      path: url.href,
      headers: { ...options.headers, Host: url.host, ...proxyAuthorization(proxy) },
    });
  }

  /** @param tunnel when aborted, closes the tunnel through a proxy, even one that is being opened */
  async #requestOptions(request: ApiRequest, tunnel: AbortSignal): Promise<HttpOptions> {
    const { method, signal, body } = request;
    const headers: Record<string, string> = {
      Accept: this.#acceptOf(request),
      'User-Agent': this.#options.userAgent,
    };
    if (body !== undefined) {
      headers['Content-Type'] = body.type;
      headers['Content-Length'] = String(Buffer.byteLength(body.text));
    }
    const options: HttpOptions = { method, signal, headers };
    await authorize(this.#loaded, options);
    const { cluster, proxy } = this.#loaded;
    // client-node's agent keeps using the first certificates; ours use those of each request.
    if (proxy?.protocol.startsWith('socks') === true) return options;
    if (cluster.server.startsWith('http:')) return { ...options, agent: this.#httpAgent };
    if (proxy === undefined) return { ...options, agent: this.#httpsAgent };
    const { HttpsProxyAgent } = await import('https-proxy-agent');
    // As in client-go, the cluster's CA may sign the proxy's certificate too.
    const ca = [...rootCertificates, ...[options.ca ?? []].flat()];
    return { ...options, agent: new HttpsProxyAgent(proxy, { signal: AbortSignal.any([signal, tunnel]), ca }) };
  }
}

function mastersOf({ master }: ApiClientOptions): readonly string[] {
  return master.split(',').map((address) => address.trim());
}

/** Returns the header for the user and password in the proxy's URL; no header if it has none. */
function proxyAuthorization({ username, password }: URL): Record<string, string> {
  if (username === '' && password === '') return {};
  const user = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { 'Proxy-Authorization': `Basic ${Buffer.from(user).toString('base64')}` };
}

/** Counts the bytes that another reader consumes. The body stays paused until that reader starts. */
function countBytes(body: IncomingMessage, onEnd: (bytes: number) => void): void {
  let bytes = 0;
  body.pause();
  body.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  body.once('end', () => onEnd(bytes));
}
