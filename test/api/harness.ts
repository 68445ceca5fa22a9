import { ApiClient, userAgent } from '../../src/kube/api/api-client.ts';
import type { ApiClientOptions } from '../../src/kube/api/api-client.ts';
import type { RequestObservation } from '../../src/observe/api-observer.ts';
import { ApiSource } from '../../src/kube/api/api-source.ts';
import type { ObjectMeta } from '../../src/kube/objects/objects.ts';
import type { ReflectorTiming } from '../../src/kube/api/reflector-timing.ts';
import type { ObjectEvent, ObjectName, SourceEvent } from '../../src/kube/objects/source.ts';
import { ApiServer } from '../apiserver/api-server.ts';
import type { ApiServerOptions } from '../apiserver/api-server.ts';
import type { JsonObject } from '../apiserver/json-object.ts';
import { RecordingLog } from '../unit/kube/recording-log.ts';

/** Accept headers: that of the daemon by default, and that for JSON. */
export const PROTOBUF = 'application/vnd.kubernetes.protobuf, */*';
export const JSON_ONLY = { accept: 'application/json, */*' };

/** Timing for fast tests. Values that the API counts in seconds stay at seconds. */
export const FAST: Partial<ReflectorTiming> = {
  backoff: { firstMs: 4, maxMs: 40 },
  healthyMs: 30,
  graceMs: 50,
  listIdleMs: 400,
  pageSize: 3,
};

export function service(name: string, clusterIP: string, more: Partial<JsonObject['metadata']> = {}): JsonObject {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace: 'default', ...more, name },
    spec: { clusterIP, clusterIPs: [clusterIP], ports: [{ name: 'http', port: 80, protocol: 'TCP' }] },
  };
}

export function slice(
  name: string,
  addresses: readonly string[],
  labels: Readonly<Record<string, string>> = {},
): JsonObject {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name, namespace: 'default', labels: { 'kubernetes.io/service-name': name, ...labels } },
    addressType: 'IPv4',
    endpoints: [{ addresses, conditions: { ready: true } }],
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  };
}

export function node(name: string): JsonObject {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name },
    status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] },
  };
}

/** The objects that a user of a source knows, and the violations of the source's contract. */
export class View {
  readonly events: SourceEvent[] = [];
  readonly breaches: string[] = [];
  /** The source may emit this Service and its EndpointSlices before `replaced`. */
  lookedUp: ObjectName | undefined;
  readonly #kinds = new Map<string, Map<string, ObjectMeta>>();
  readonly #newest = new Map<string, number>();

  readonly handle = (event: SourceEvent): void => {
    this.events.push(event);
    this.#take(event.kind, event.event);
  };

  /** Returns "namespace/name@resourceVersion" of all objects of a kind, sorted. */
  of(kind: SourceEvent['kind']): readonly string[] {
    const objects = [...(this.#kinds.get(kind)?.values() ?? [])];
    return objects.map((meta) => `${meta.namespace}/${meta.name}@${meta.resourceVersion}`).toSorted();
  }

  names(kind: SourceEvent['kind']): string {
    return this.of(kind)
      .map((text) => text.replace(/^.*\/(.*)@.*$/, '$1'))
      .join(' ');
  }

  types(kind: SourceEvent['kind']): readonly string[] {
    return this.events.filter((event) => event.kind === kind).map(({ event }) => event.type);
  }

  #isLookedUp({ namespace, name, labels }: ObjectMeta): boolean {
    if (this.lookedUp?.namespace !== namespace) return false;
    return this.lookedUp.name === (labels['kubernetes.io/service-name'] ?? name);
  }

  #take(kind: SourceEvent['kind'], event: ObjectEvent<{ readonly meta: ObjectMeta }>): void {
    if (event.type === 'replaced') {
      const objects = new Map(event.objects.map(({ meta }) => [`${meta.namespace}/${meta.name}`, meta]));
      if (objects.size !== event.objects.length) this.breaches.push(`${kind}: an object twice in one list`);
      this.#kinds.set(kind, objects);
      this.#newest.set(kind, Math.max(0, ...[...objects.values()].map((meta) => Number(meta.resourceVersion))));
      return;
    }
    const objects = this.#kinds.get(kind);
    if (objects === undefined && event.type === 'applied' && this.#isLookedUp(event.object.meta)) return;
    if (objects === undefined) {
      this.breaches.push(`${kind}: ${event.type} before replaced`);
      return;
    }
    if (event.type === 'deleted') {
      const key = `${event.object.namespace}/${event.object.name}`;
      if (!objects.delete(key)) this.breaches.push(`${kind}: ${key} deleted, but never known`);
      return;
    }
    const { meta } = event.object;
    const version = Number(meta.resourceVersion);
    if (version <= (this.#newest.get(kind) ?? 0)) this.breaches.push(`${kind}: version ${version} again, or late`);
    this.#newest.set(kind, version);
    objects.set(`${meta.namespace}/${meta.name}`, meta);
  }
}

type Access = Partial<
  Pick<
    ApiClientOptions,
    'accept' | 'onJsonOnly' | 'kubeconfig' | 'master' | 'connectTimeoutMs' | 'headersTimeoutMs' | 'slowMs'
  >
>;

export interface FollowOptions {
  /** A Service to fetch before the lists. */
  readonly first?: ObjectName;
  /** Called with each event, after the view has handled it. */
  readonly also?: (event: SourceEvent) => void;
  /** The `programmed` promise of Source.start(). */
  readonly programmed?: Promise<void>;
}

/** A source, connected to any server, and a view of its events. */
export class Follower {
  readonly log = new RecordingLog();
  readonly view = new View();
  readonly observations: RequestObservation[] = [];
  readonly #paths: string[] = [];
  client: ApiClient | undefined;
  source: ApiSource | undefined;

  start(access: Access, timing: Partial<ReflectorTiming> = {}, { first, also, programmed }: FollowOptions = {}): void {
    this.view.lookedUp = first;
    const created = ApiClient.create({
      kubeconfig: '',
      master: '',
      accept: PROTOBUF,
      ...access,
      userAgent: userAgent('1.2.3-dev'),
      observer: {
        apiRequestFinished: (observation) => this.observations.push(observation),
        apiResponseRead: () => undefined,
        apiRequestRetried: () => undefined,
        apiRateLimiterWaited: () => undefined,
      },
    });
    if (!created.ok) throw new Error(created.error);
    this.client = created.client;
    const request = created.client.request.bind(created.client);
    created.client.request = async (options) => {
      this.#paths.push(options.path);
      return await request(options);
    };
    this.source = new ApiSource({
      client: created.client,
      nodeName: 'node-1',
      log: this.log,
      ...(first === undefined ? {} : { first }),
      timing: { ...FAST, ...timing },
    });
    this.source.start((event) => {
      this.view.handle(event);
      also?.(event);
    }, programmed);
  }

  /** Returns the query parameters of all lists and watches of a resource so far. */
  requested(plural: string): readonly URLSearchParams[] {
    const ours = this.#paths.filter((path) => path.includes(`/${plural}?`));
    return ours.map((path) => new URL(path, 'http://a').searchParams);
  }

  async stop(): Promise<void> {
    await this.source?.stop();
    this.client?.close();
    if (this.view.breaches.length > 0)
      throw new Error(`the source broke its promise: ${this.view.breaches.join('; ')}`);
  }
}

/** A server in memory, a source and a view of it. Each test creates its own. */
export class Bed extends Follower {
  readonly server: ApiServer;

  constructor(options: ApiServerOptions = {}) {
    super();
    this.server = new ApiServer(options);
  }

  /** Connects the source to this server and starts it. */
  follow(timing: Partial<ReflectorTiming> = {}, access: Access = {}, options: FollowOptions = {}): void {
    const master = access.master ?? (access.kubeconfig === undefined ? this.server.url : '');
    this.start({ ...access, master }, timing, options);
  }

  /** Returns the objects that the selectors of this source match. */
  expected(plural: 'services' | 'endpointslices'): readonly string[] {
    const version = plural === 'services' ? 'v1' : 'discovery.k8s.io/v1';
    return this.server
      .objects(plural, version)
      .filter(({ metadata: { labels = {} }, ...object }) => {
        const headless = plural === 'services' && spec(object)['clusterIP'] === 'None';
        const label = plural === 'services' ? 'service-proxy-name' : 'headless';
        return !headless && !(`service.kubernetes.io/${label}` in labels);
      })
      .map(({ metadata }) => `${metadata.namespace}/${metadata.name}@${metadata.resourceVersion}`)
      .toSorted();
  }

  override async stop(): Promise<void> {
    await this.source?.stop();
    this.client?.close();
    await this.server.stop();
    await super.stop();
  }
}

function spec(object: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return (object['spec'] ?? {}) as Readonly<Record<string, unknown>>;
}
