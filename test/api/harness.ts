import { ApiClient, userAgent } from '../../src/kube/api-client.ts';
import type { RequestObservation } from '../../src/kube/api-client.ts';
import { ApiSource } from '../../src/kube/api-source.ts';
import type { ObjectMeta } from '../../src/kube/objects.ts';
import type { ReflectorTiming } from '../../src/kube/reflector-timing.ts';
import type { ObjectEvent, ObjectName, SourceEvent } from '../../src/kube/source.ts';
import { ApiServer } from '../apiserver/api-server.ts';
import type { ApiServerOptions } from '../apiserver/api-server.ts';
import type { JsonObject } from '../apiserver/json-object.ts';
import { RecordingLog } from '../unit/kube/recording-log.ts';

/** As fast as a test wants it; seconds only where the API counts in seconds. */
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

/** What a user of a source knows, and every breach of the source's promises. */
export class View {
  readonly events: SourceEvent[] = [];
  readonly breaches: string[] = [];
  /** May be told of before everything is. */
  lookedUp: ObjectName | undefined;
  readonly #kinds = new Map<string, Map<string, ObjectMeta>>();
  readonly #newest = new Map<string, number>();

  readonly handle = (event: SourceEvent): void => {
    this.events.push(event);
    this.#take(event.kind, event.event);
  };

  /** "namespace/name@resourceVersion" of all objects of a kind, sorted. */
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

export interface FollowOptions {
  /** Looked up before the lists are complete. */
  readonly first?: ObjectName;
  /** Is told every event after the view. */
  readonly also?: (event: SourceEvent) => void;
  /** What the lists wait for, where something was looked up. */
  readonly programmed?: Promise<void>;
}

/** A source at a server of the caller's, and a view of it. */
export class Follower {
  readonly log = new RecordingLog();
  readonly view = new View();
  readonly observations: RequestObservation[] = [];
  client: ApiClient | undefined;
  source: ApiSource | undefined;

  start(
    access: { kubeconfig?: string; master?: string; headersTimeoutMs?: number },
    timing: Partial<ReflectorTiming> = {},
    { first, also, programmed }: FollowOptions = {},
  ): void {
    this.view.lookedUp = first;
    const created = ApiClient.create({
      kubeconfig: '',
      master: '',
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

  async stop(): Promise<void> {
    await this.source?.stop();
    this.client?.close();
    if (this.view.breaches.length > 0)
      throw new Error(`the source broke its promise: ${this.view.breaches.join('; ')}`);
  }
}

/** A server in memory, a source and a view of it; each test makes its own. */
export class Bed extends Follower {
  readonly server: ApiServer;

  constructor(options: ApiServerOptions = {}) {
    super();
    this.server = new ApiServer(options);
  }

  /** Starts the source at this server. */
  follow(
    timing: Partial<ReflectorTiming> = {},
    access: { kubeconfig?: string; master?: string; headersTimeoutMs?: number } = {},
    options: FollowOptions = {},
  ): void {
    const master = access.master ?? (access.kubeconfig === undefined ? this.server.url : '');
    this.start({ ...access, master }, timing, options);
  }

  /** What the server would list to this source. */
  expected(plural: 'services' | 'endpointslices'): readonly string[] {
    const version = plural === 'services' ? 'v1' : 'discovery.k8s.io/v1';
    return this.server
      .objects(plural, version)
      .filter(({ metadata: { labels = {} }, ...object }) => {
        const headless =
          plural === 'services' ? spec(object)['clusterIP'] === 'None' : 'service.kubernetes.io/headless' in labels;
        return !headless && !('service.kubernetes.io/service-proxy-name' in labels);
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
