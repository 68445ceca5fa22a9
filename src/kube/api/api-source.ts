import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../observe/log/log.ts';
import type { ApiClient } from './api-client.ts';
import { fetchForBootstrap } from './bootstrap-lists.ts';
import { CredentialReport } from './failure-report.ts';
import { Interner } from '../objects/interner.ts';
import { Reflector, type ReflectorOptions } from './reflector.ts';
import type { WatchObserver } from '../../observe/api-observer.ts';
import { DEFAULT_TIMING, type ReflectorTiming } from './reflector-timing.ts';
import { ENDPOINT_SLICES, ownNode, servicesWith } from './resource.ts';
import type { EndpointSlice, Node, Service } from '../objects/objects.ts';
import type { ObjectName, Source, SourceEvent } from '../objects/source.ts';
import type { ServiceSelection } from '../objects/trim-service.ts';

export interface ApiSourceOptions {
  readonly client: ApiClient;
  /** Name of our Node; other Nodes are not watched. */
  readonly nodeName: string;
  /** A Service to fetch, with its EndpointSlices, before all objects are listed. */
  readonly first?: ObjectName;
  readonly selection?: ServiceSelection;
  readonly log: Log;
  readonly timing?: Partial<ReflectorTiming>;
  readonly observer?: WatchObserver;
}

/**
 * Longest delay of the lists, in milliseconds: until `first` is fetched, and then until the kernel is programmed for
 * it.
 */
const ANSWER_MS = 1_000;
const PROGRAM_MS = 5_000;

/** Watches Services, EndpointSlices and our Node on the API server. */
export class ApiSource implements Source {
  readonly #services: Reflector<Service>;
  readonly #endpointSlices: Reflector<EndpointSlice>;
  readonly #nodes: Reflector<Node>;
  readonly #shared: Omit<ReflectorOptions<Service>, 'resource'>;
  readonly #first: ObjectName | undefined;
  readonly #selection: ServiceSelection | undefined;
  readonly #abort = new AbortController();
  #running: Promise<unknown> = Promise.resolve();

  constructor({ client, nodeName, first, selection, log, timing, observer }: ApiSourceOptions) {
    this.#first = first;
    this.#selection = selection;
    this.#shared = {
      client,
      log,
      interner: new Interner(),
      timing: { ...DEFAULT_TIMING, ...timing },
      credentials: new CredentialReport(log),
      streaming: { refused: false },
      ...(observer && { observer }),
    };
    this.#services = new Reflector({
      ...this.#shared,
      resource: servicesWith(selection),
    });
    this.#endpointSlices = new Reflector({ ...this.#shared, resource: ENDPOINT_SLICES });
    this.#nodes = new Reflector({ ...this.#shared, resource: ownNode(nodeName) });
  }

  /** @param programmed resolves when the kernel is programmed for `first`; the CPU-heavy lists wait for it */
  start(handler: (event: SourceEvent) => void, programmed: Promise<void> = Promise.resolve()): void {
    this.#running = this.#run(handler, programmed);
  }

  async #run(handler: (event: SourceEvent) => void, programmed: Promise<void>): Promise<void> {
    const { signal } = this.#abort;
    const nodes = this.#nodes.run((event) => handler({ kind: 'node', event }), signal);
    const bootstrap = this.#bootstrap(handler);
    if ((await this.#within(ANSWER_MS, bootstrap)) === true) await this.#within(PROGRAM_MS, programmed);
    await Promise.all([
      nodes,
      bootstrap,
      this.#services.run((event) => handler({ kind: 'service', event }), signal),
      this.#endpointSlices.run((event) => handler({ kind: 'endpoint-slice', event }), signal),
    ]);
  }

  /** Returns the result of the promise, or undefined after this many milliseconds. */
  async #within<T>(milliseconds: number, promise: Promise<T>): Promise<T | undefined> {
    const timeout = sleep(milliseconds, undefined, { signal: this.#abort.signal, ref: false });
    return Promise.race([promise, timeout.catch(() => undefined)]);
  }

  /**
   * Fetches `first` before the lists, which would delay it on a busy server or link. Returns whether the Service
   * exists. Drops fetched objects if the list of their kind has already arrived.
   */
  async #bootstrap(handler: (event: SourceEvent) => void): Promise<boolean> {
    if (this.#first === undefined) return false;
    const listed = (kind: SourceEvent['kind']): boolean =>
      kind === 'service' ? this.#services.synced : this.#endpointSlices.synced;
    const exchange = { ...this.#shared, signal: this.#abort.signal };
    const wanted = (): boolean => !listed('service') || !listed('endpoint-slice');
    const events = await fetchForBootstrap(this.#first, exchange, this.#selection, wanted);
    for (const event of events) if (!listed(event.kind)) handler(event);
    return events.some(({ kind }) => kind === 'service');
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#running;
  }
}
