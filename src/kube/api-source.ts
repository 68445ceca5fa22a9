import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../observe/log.ts';
import type { ApiClient } from './api-client.ts';
import type { Exchange } from './exchange.ts';
import { CredentialReport } from './failure-report.ts';
import { Interner } from './interner.ts';
import { Reflector } from './reflector.ts';
import type { ReflectorStatus, WatchObserver } from './reflector.ts';
import { DEFAULT_TIMING } from './reflector-timing.ts';
import type { ReflectorTiming } from './reflector-timing.ts';
import { ENDPOINT_SLICES, ownNode, SERVICES } from './resource.ts';
import type { EndpointSlice, Node, Service } from './objects.ts';
import { lookAhead } from './look-ahead.ts';
import type { ObjectName, Source, SourceEvent } from './source.ts';

export interface ApiSourceOptions {
  readonly client: ApiClient;
  /** Our Node's name: the only Node that is watched. */
  readonly nodeName: string;
  /** A Service that is looked up, with its EndpointSlices, before the lists of all are in. */
  readonly first?: ObjectName;
  readonly log: Log;
  readonly timing?: Partial<ReflectorTiming>;
  readonly observer?: WatchObserver;
}

/** Milliseconds that the lists wait for what is looked up ahead of them, and then for its being programmed. */
const ANSWER_MS = 1_000;
const PROGRAM_MS = 5_000;

/** Follows Services, EndpointSlices and our Node at the API server. */
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
    const shared = { ...this.#exchange, credentials, ...(observer === undefined ? {} : { observer }) };
    this.#services = new Reflector({ ...shared, resource: SERVICES });
    this.#endpointSlices = new Reflector({ ...shared, resource: ENDPOINT_SLICES });
    this.#nodes = new Reflector({ ...shared, resource: ownNode(nodeName) });
  }

  /** @param programmed resolves when what was looked up is in the kernel: the lists, which take all of the loop, can begin */
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

  /** What the promise says within so many milliseconds. */
  async #within<T>(milliseconds: number, promise: Promise<T>): Promise<T | undefined> {
    const over = new AbortController();
    const signal = AbortSignal.any([this.#abort.signal, over.signal]);
    const answer = await Promise.race([promise, sleep(milliseconds, undefined, { signal }).catch(() => undefined)]);
    over.abort();
    return answer;
  }

  /**
   * Answers whether anything was found. A server, or a link, that is busy sending everything would answer these small requests last. An
   * object that the list of its kind has overtaken is old news.
   */
  async #lookAhead(handler: (event: SourceEvent) => void): Promise<boolean> {
    const services = this.#services;
    const endpointSlices = this.#endpointSlices;
    if (this.#first === undefined) return false;
    const exchange = { ...this.#exchange, signal: this.#abort.signal };
    const wanted = (): boolean => !services.status.synced || !endpointSlices.status.synced;
    const found = await lookAhead(this.#first, exchange, wanted);
    if (found === undefined || exchange.signal.aborted) return false;
    if (!services.status.synced) {
      for (const object of found.services) handler({ kind: 'service', event: { type: 'applied', object } });
    }
    if (!endpointSlices.status.synced) {
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

  /** One for each resource. */
  get status(): readonly ReflectorStatus[] {
    return [this.#services.status, this.#endpointSlices.status, this.#nodes.status];
  }
}
