import type { Log } from '../observe/log.ts';
import type { ApiClient } from './api-client.ts';
import { CredentialReport } from './failure-report.ts';
import { Interner } from './interner.ts';
import { Reflector } from './reflector.ts';
import type { ReflectorStatus, WatchObserver } from './reflector.ts';
import { DEFAULT_TIMING } from './reflector-timing.ts';
import type { ReflectorTiming } from './reflector-timing.ts';
import { ENDPOINT_SLICES, ownNode, SERVICES } from './resource.ts';
import type { EndpointSlice, Node, Service } from './objects.ts';
import type { Source, SourceEvent } from './source.ts';

export interface ApiSourceOptions {
  readonly client: ApiClient;
  /** Our Node's name: the only Node that is watched. */
  readonly nodeName: string;
  readonly log: Log;
  readonly timing?: Partial<ReflectorTiming>;
  readonly observer?: WatchObserver;
}

/** Follows Services, EndpointSlices and our Node at the API server. */
export class ApiSource implements Source {
  readonly #services: Reflector<Service>;
  readonly #endpointSlices: Reflector<EndpointSlice>;
  readonly #nodes: Reflector<Node>;
  readonly #abort = new AbortController();
  #running: Promise<unknown> = Promise.resolve();

  constructor({ client, nodeName, log, timing: changes, observer }: ApiSourceOptions) {
    const timing = { ...DEFAULT_TIMING, ...changes };
    const credentials = new CredentialReport(log);
    const common = { client, log, credentials, interner: new Interner(), timing };
    const shared = { ...common, ...(observer === undefined ? {} : { observer }) };
    this.#services = new Reflector({ ...shared, resource: SERVICES });
    this.#endpointSlices = new Reflector({ ...shared, resource: ENDPOINT_SLICES });
    this.#nodes = new Reflector({ ...shared, resource: ownNode(nodeName) });
  }

  start(handler: (event: SourceEvent) => void): void {
    const { signal } = this.#abort;
    this.#running = Promise.all([
      this.#nodes.run((event) => handler({ kind: 'node', event }), signal),
      this.#services.run((event) => handler({ kind: 'service', event }), signal),
      this.#endpointSlices.run((event) => handler({ kind: 'endpoint-slice', event }), signal),
    ]);
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#running;
  }

  /** One for each resource. */
  get status(): readonly ReflectorStatus[] {
    return [this.#services.status, this.#endpointSlices.status, this.#nodes.status];
  }
}
