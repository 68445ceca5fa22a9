import http from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import https from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { Authenticator } from './authenticator.ts';
import type { AuthOptions } from './authenticator.ts';
import { FaultPlan, FaultySink } from './faults.ts';
import type { Fault } from './faults.ts';
import { handleCollectionRead, handleWrite } from './handlers.ts';
import type { JsonObject } from './json-object.ts';
import { encodeObject, PROTOBUF_TYPE } from './protobuf/encode-object.ts';
import { readRequest } from './request-info.ts';
import type { RequestInfo } from './request-info.ts';
import { RESOURCE_TYPES, typeOfObject } from './resources.ts';
import { expired, StatusError } from './status.ts';
import { Store } from './store.ts';
import type { Encoding, WatchStream } from './watch-stream.ts';

const CONTENT_TYPE: Readonly<Record<Encoding, string>> = { json: 'application/json', protobuf: PROTOBUF_TYPE };

export interface ApiServerOptions {
  /** Port; 0 by default, which means any free one. */
  readonly port?: number;
  /** 127.0.0.1 by default. */
  readonly host?: string;
  /** PEM texts; if absent, plain HTTP. `ca` verifies client certificates. */
  readonly tls?: { readonly cert: string; readonly key: string; readonly ca: string };
  /** Tokens and permissions; by default, all users have all permissions. */
  readonly auth?: AuthOptions;
  /** Milliseconds between bookmarks; 60,000 by default, like the real server. */
  readonly bookmarkMs?: number;
  /** Supports sendInitialEvents (WatchList); true by default. */
  readonly watchList?: boolean;
  /** The simulated etcd is new enough for WatchList; true by default. */
  readonly requestWatchProgress?: boolean;
  /** Can select Services by spec.clusterIP; true by default. */
  readonly clusterIpSelector?: boolean;
  /** Accepts label selectors, as every real server does; true by default. */
  readonly labelSelectors?: boolean;
  /** Lists at resourceVersion=0 ignore the limit, as the real server's cache does; false by default. */
  readonly cacheIgnoresLimit?: boolean;
  /** Whether it can send protobuf; true by default. */
  readonly protobuf?: boolean;
}

/** A request that was received, for assertions. */
export interface AuditEntry {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly user: string;
  readonly userAgent: string;
  readonly accept: string;
  /** "" if the path names no resource. */
  readonly verb: string;
  readonly resource: string;
  /** 0 until a response is sent. */
  code: number;
  /** Of a response to a request for a resource. */
  encoding: Encoding;
}

/**
 * An API server in memory for tests and the demo. Supports lists, watches and writes of the few resources that a
 * service proxy uses, is as strict as a real one, and injects faults. No controllers: tests must create EndpointSlices.
 */
export class ApiServer {
  readonly store = new Store();
  readonly faults = new FaultPlan();
  readonly requests: AuditEntry[] = [];
  readonly options: ApiServerOptions;
  readonly auth: Authenticator;
  readonly watches = new Set<WatchStream>();
  readonly #server: http.Server | https.Server;
  readonly #sockets = new Set<Socket>();

  constructor(options: ApiServerOptions = {}) {
    this.options = options;
    this.auth = new Authenticator(options.auth ?? {});
    const listener = (request: IncomingMessage, response: ServerResponse): void => void this.#serve(request, response);
    this.#server =
      options.tls === undefined
        ? http.createServer(listener)
        : https.createServer({ ...options.tls, requestCert: true, rejectUnauthorized: false }, listener);
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  /** Starts the server and resolves with its URL. After stop(), it can be started again on the same port. */
  async start(port = this.options.port ?? 0): Promise<string> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, this.options.host ?? '127.0.0.1', resolve);
    });
    return this.url;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    const { address, family } = this.#server.address() as AddressInfo;
    const host = family === 'IPv6' ? `[${address}]` : address;
    return `${this.options.tls === undefined ? 'http' : 'https'}://${host}:${this.port}`;
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.dropConnections();
    await closed;
  }

  /** Creates or replaces an object. */
  apply(object: JsonObject): JsonObject {
    const type = typeOfObject(object);
    const { resourceVersion: _any, ...metadata } = object.metadata;
    const fresh = { ...object, metadata } as JsonObject;
    try {
      return this.store.create(type, fresh);
    } catch (error) {
      if (error instanceof StatusError && error.reason === 'AlreadyExists') return this.store.update(type, fresh);
      throw error;
    }
  }

  delete(object: Pick<JsonObject, 'apiVersion' | 'kind' | 'metadata'>): void {
    this.store.delete(typeOfObject(object), object.metadata.namespace ?? 'default', object.metadata.name);
  }

  /** Returns all objects of a resource, unfiltered. */
  objects(plural: string, apiVersion: string): readonly JsonObject[] {
    const type = RESOURCE_TYPES.find((known) => known.plural === plural && known.apiVersion === apiVersion);
    return type === undefined ? [] : this.store.list(type, () => true, 0, '').objects;
  }

  /** Discards the history. Open watches continue, but no watch can resume from an older revision. */
  compact(): void {
    this.store.compact();
  }

  dropConnections(): void {
    for (const watch of this.watches) watch.release();
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Calls `act` for each open watch of the resource, or of all resources. */
  eachWatch(act: (watch: WatchStream) => void, resource?: string): void {
    for (const watch of this.watches) if (resource === undefined || watch.type.plural === resource) act(watch);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://server');
    const entry: AuditEntry = {
      method: request.method ?? '',
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      user: '',
      userAgent: request.headers['user-agent'] ?? '',
      accept: request.headers.accept ?? '*/*',
      verb: '',
      resource: '',
      code: 0,
      encoding: 'json',
    };
    this.requests.push(entry);
    response.on('error', () => {});
    try {
      const user = this.auth.identify(request.headers.authorization, clientName(request.socket));
      Object.assign(entry, { user });
      if (/^\/(healthz|livez|readyz)$/.test(url.pathname)) return this.#reply(response, entry, 200, 'ok');
      if (url.pathname === '/version')
        return this.#reply(response, entry, 200, { major: '1', minor: '34', gitVersion: 'v1.34.0' });
      const info = readRequest(entry.method, url);
      Object.assign(entry, { verb: info.verb, resource: info.type.plural });
      entry.encoding = this.#encodingFor(entry);
      this.auth.authorize(user, info);
      const fault = this.faults.take(info.verb, info.type.plural, info.query.has('continue'));
      if (this.#refuse(fault, request)) return;
      await this.#answer(info, fault, request, response, entry);
    } catch (error) {
      const status = error instanceof StatusError ? error : new StatusError(500, 'InternalError', String(error));
      if (status.retryAfterSeconds !== undefined) response.setHeader('Retry-After', status.retryAfterSeconds);
      this.#reply(response, entry, status.code, status.toStatus());
    }
  }

  /** As the real server: protobuf if it is accepted and there is a schema. */
  #encodingFor({ accept, resource }: AuditEntry): Encoding {
    if (this.options.protobuf !== false && resource !== 'events' && accept.includes(PROTOBUF_TYPE)) return 'protobuf';
    if (/application\/json|\*\/\*|application\/\*/.test(accept)) return 'json';
    throw new StatusError(
      406,
      'NotAcceptable',
      'only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf',
    );
  }

  /** Returns whether no response will be sent. Throws if the fault is an error status. */
  #refuse(fault: Fault | undefined, request: IncomingMessage): boolean {
    if (fault?.type === 'drop') request.socket.destroy();
    if (fault?.type === 'expire')
      throw expired('The provided continue parameter is too old to display a consistent list result.');
    if (fault?.type === 'status') {
      throw new StatusError(fault.code, 'Fault', fault.message ?? 'a fault on demand', fault.retryAfterSeconds);
    }
    return fault?.type === 'drop' || fault?.type === 'stall';
  }

  async #answer(
    info: RequestInfo,
    fault: Fault | undefined,
    request: IncomingMessage,
    response: ServerResponse,
    entry: AuditEntry,
  ): Promise<void> {
    if (info.verb !== 'list' && info.verb !== 'watch') {
      const { code, object } = await handleWrite(this.store, info, request);
      return this.#reply(response, entry, code, object);
    }
    const answer = handleCollectionRead(this.store, info, this.options);
    entry.code = 200;
    const { encoding } = entry;
    const streamed = answer.type === 'watch' && encoding === 'protobuf' ? ';stream=watch' : '';
    response.writeHead(200, { 'Content-Type': CONTENT_TYPE[encoding] + streamed });
    response.flushHeaders();
    response.socket?.setNoDelay(true);
    const sink = new FaultySink(response, fault);
    if (answer.type === 'list') {
      sink.send(encoding === 'protobuf' ? encodeObject(answer.list) : JSON.stringify(answer.list));
      return sink.end();
    }
    const watch = answer.open(sink, encoding, (closed) => this.watches.delete(closed));
    this.watches.add(watch);
    response.on('close', () => watch.release());
    watch.start();
  }

  #reply(response: ServerResponse, entry: AuditEntry, code: number, body: unknown): void {
    entry.code = code;
    if (response.headersSent || response.destroyed) return void response.destroy();
    if (typeof body === 'string') {
      response.writeHead(code, { 'Content-Type': 'text/plain' });
      response.end(body);
    } else {
      response.writeHead(code, { 'Content-Type': CONTENT_TYPE[entry.encoding] });
      response.end(entry.encoding === 'protobuf' ? encodeObject(body) : JSON.stringify(body));
    }
  }
}

/** Returns the common name of a client certificate that is signed by our CA. */
function clientName(socket: Socket): string | undefined {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  const name = socket.getPeerCertificate().subject?.CN;
  return typeof name === 'string' ? name : undefined;
}
