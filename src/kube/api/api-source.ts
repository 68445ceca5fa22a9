import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../observe/log.ts';
import type { ApiClient } from './api-client.ts';
import type { Exchange } from './exchange.ts';
import { CredentialReport } from './failure-report.ts';
import { Interner } from '../objects/interner.ts';
import { Reflector } from './reflector.ts';
import type { WatchObserver } from '../../observe/api-observer.ts';
import { DEFAULT_TIMING, type ReflectorTiming } from './reflector-timing.ts';
import { ENDPOINT_SLICES, ownNode, SERVICES } from './resource.ts';
import type { EndpointSlice, Node, Service } from '../objects/objects.ts';
import { lookAhead } from './look-ahead.ts';
import type { ObjectName, Source, SourceEvent } from '../objects/source.ts';

export interface ApiSourceOptions {
  readonly client: ApiClient;
  /** Name of our Node; other Nodes are not watched. */
  readonly nodeName: string;
  /** A Service to fetch, with its EndpointSlices, before all objects are listed. */
  readonly first?: ObjectName;
  readonly log: Log;
  readonly timing?: Partial<ReflectorTiming>;
  readonly observer?: WatchObserver;
}

/** Milliseconds to delay the lists until `first` is fetched, and then until the kernel is programmed for it. */
const ANSWER_MS = 1_000;
const PROGRAM_MS = 5_000;

/** Watches Services, EndpointSlices and our Node on the API server. */
export class ApiSource implements Source {
  readonly #services: Reflector<Service>;
  readonly #endpointSlices: Reflector<EndpointSlice>;
  readonly #nodes: Reflector<Node>;
  readonly #exchange: Pick<Exchange<Service>, 'client' | 'log' | 'interner' | 'timing'>;
  readonly #first: ObjectName | undefined;
  readonly #abort = new AbortController();
  #running: Promise<unknown> = Promise.resolve();

  constructor({ client, nodeName, first, log, timing: changes, observer }: ApiSourceOptions) {
    const timing = { ...DEFAULT_TIMING, ...changes };
    this.#exchange = { client, log, interner: new Interner(), timing };
    this.#first = first;
    const credentials = new CredentialReport(log);
    const shared = {
      ...this.#exchange,
      credentials,
      streaming: { refused: false },
      ...(observer === undefined ? {} : { observer }),
    };
    this.#services = new Reflector({ ...shared, resource: SERVICES });
    this.#endpointSlices = new Reflector({ ...shared, resource: ENDPOINT_SLICES });
    this.#nodes = new Reflector({ ...shared, resource: ownNode(nodeName) });
  }

  /** @param programmed resolves when the kernel is programmed for `first`; the CPU-heavy lists wait for it */
  start(handler: (event: SourceEvent) => void, programmed: Promise<void> = Promise.resolve()): void {
    this.#running = this.#run(handler, programmed);
  }

  async #run(handler: (event: SourceEvent) => void, programmed: Promise<void>): Promise<void> {
    const { signal } = this.#abort;
    const nodes = this.#nodes.run((event) => handler({ kind: 'node', event }), signal);
    const ahead = this.#lookAhead(handler);
    if ((await this.#within(ANSWER_MS, ahead)) === true) await this.#within(PROGRAM_MS, programmed);
    await Promise.all([
      nodes,
      ahead,
      this.#services.run((event) => handler({ kind: 'service', event }), signal),
      this.#endpointSlices.run((event) => handler({ kind: 'endpoint-slice', event }), signal),
    ]);
  }

  /** Returns the result of the promise, or undefined after this many milliseconds. */
  async #within<T>(milliseconds: number, promise: Promise<T>): Promise<T | undefined> {
    const over = new AbortController();
    const signal = AbortSignal.any([this.#abort.signal, over.signal]);
    const answer = await Promise.race([promise, sleep(milliseconds, undefined, { signal }).catch(() => undefined)]);
    over.abort();
    return answer;
  }

  /**
   * Fetches `first` before the lists, which would delay it on a busy server or link. Returns whether the Service
   * exists. Drops fetched objects if the list of their kind has already arrived.
   */
  async #lookAhead(handler: (event: SourceEvent) => void): Promise<boolean> {
    const services = this.#services;
    const endpointSlices = this.#endpointSlices;
    if (this.#first === undefined) return false;
    const exchange = { ...this.#exchange, signal: this.#abort.signal };
    const wanted = (): boolean => !services.synced || !endpointSlices.synced;
    const found = await lookAhead(this.#first, exchange, wanted);
    if (found === undefined || exchange.signal.aborted) return false;
    if (!services.synced) {
      for (const object of found.services) handler({ kind: 'service', event: { type: 'applied', object } });
    }
    if (!endpointSlices.synced) {
      for (const object of found.endpointSlices) {
        handler({ kind: 'endpoint-slice', event: { type: 'applied', object } });
      }
    }
    return found.services.length > 0;
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#running;
  }
}
