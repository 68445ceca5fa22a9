import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../observe/log.ts';
import type { ApiClient } from './api-client.ts';
import { backoffDelay } from './backoff.ts';
import type { Exchange } from './exchange.ts';
import { type CredentialReport, FailureReport } from './failure-report.ts';
import type { Interner } from './interner.ts';
import { listPages } from './list.ts';
import { objectKey } from './object-index.ts';
import type { ObjectMeta } from './objects.ts';
import { step } from './reflector-state.ts';
import type { Listing, ReflectorInput, ReflectorState, Waiting, Watching } from './reflector-state.ts';
import type { ReflectorTiming } from './reflector-timing.ts';
import type { Resource } from './resource.ts';
import type { ObjectEvent } from './source.ts';
import { watchOnce } from './watch.ts';
import type { WatchEnd } from './watch.ts';

/** Who counts what reflectors go through. */
export interface WatchObserver {
  setWatchState(resource: string, state: ReflectorState['name']): void;
  /** A list or watch is over and will be begun anew. @param reason a kind of failure, or "ended" in good order */
  watchRestarted(resource: string, reason: string): void;
}

export interface ReflectorOptions<T extends { readonly meta: ObjectMeta }> {
  readonly client: ApiClient;
  readonly resource: Resource<T>;
  readonly interner: Interner;
  readonly log: Log;
  /** Shared by all reflectors of a client. */
  readonly credentials: CredentialReport;
  readonly timing: ReflectorTiming;
  readonly observer?: WatchObserver;
}

/** For metrics and health. */
export interface ReflectorStatus {
  readonly resource: string;
  readonly state: ReflectorState['name'];
  /** The first `replaced` has been passed on. */
  readonly synced: boolean;
  /** "" until the first list. */
  readonly resourceVersion: string;
  /** Lists completed and watches opened since the start. */
  readonly lists: number;
  readonly watches: number;
  /** Attempts that failed since the start. */
  readonly failures: number;
}

const FIRST: Listing = { name: 'listing', plan: { how: 'stream', from: 'cache', selector: 0 }, failures: 0 };

/**
 * Follows one resource of the API server: lists it whole, then watches it from there, and again and again. Passes on one
 * `replaced` for each list, then each change once, in the server's order. What to do next is decided in reflector-state.ts; here is
 * the doing.
 */
export class Reflector<T extends { readonly meta: ObjectMeta }> {
  readonly #options: ReflectorOptions<T>;
  readonly #report: FailureReport;
  #state: ReflectorState = FIRST;
  #onEvent: (event: ObjectEvent<T>) => void = () => {};
  #lists = 0;
  #watches = 0;
  #failures = 0;
  #resourceVersion = '';

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#report = new FailureReport(options.resource.plural, options.log, options.credentials);
  }

  get status(): ReflectorStatus {
    return {
      resource: this.#options.resource.plural,
      state: this.#state.name,
      synced: this.#lists > 0,
      resourceVersion: this.#resourceVersion,
      lists: this.#lists,
      watches: this.#watches,
      failures: this.#failures,
    };
  }

  /** Goes on until the signal; nothing is passed on after it. Rejects only if `onEvent` throws, which it must not. */
  async run(onEvent: (event: ObjectEvent<T>) => void, signal: AbortSignal): Promise<void> {
    this.#onEvent = (event) => {
      if (!signal.aborted) onEvent(event);
    };
    this.#options.observer?.setWatchState(this.#options.resource.plural, this.#state.name);
    const exchange: Exchange<T> = { ...this.#options, signal };
    while (!signal.aborted) await this.#act(exchange);
  }

  async #act(exchange: Exchange<T>): Promise<void> {
    const state = this.#state;
    switch (state.name) {
      case 'listing':
        return state.plan.how === 'pages' ? await this.#list(state, exchange) : await this.#stream(state, exchange);
      case 'watching':
        return await this.#watch(state, exchange);
      case 'waiting':
        return await this.#wait(state, exchange);
    }
  }

  #step(input: ReflectorInput): void {
    const { resource, observer } = this.#options;
    const before = this.#state.name;
    this.#state = step(this.#state, input, resource.selectors.length);
    if (this.#state.name !== before) observer?.setWatchState(resource.plural, this.#state.name);
  }

  #ended(end: WatchEnd): void {
    if (end.failure !== undefined) this.#failures++;
    this.#options.observer?.watchRestarted(this.#options.resource.plural, end.failure?.kind ?? 'ended');
    this.#step({ type: 'ended', ...end });
  }

  #replaced(objects: readonly T[], resourceVersion: string): void {
    this.#lists++;
    this.#resourceVersion = resourceVersion;
    this.#onEvent({ type: 'replaced', objects });
    this.#step({ type: 'listed', resourceVersion });
  }

  #progress(resourceVersion: string): void {
    if (resourceVersion === '') return;
    this.#resourceVersion = resourceVersion;
    this.#step({ type: 'progress', resourceVersion });
  }

  async #list(state: Listing, exchange: Exchange<T>): Promise<void> {
    const result = await listPages(exchange, state.plan);
    if (exchange.signal.aborted) return;
    if (!result.ok) return this.#ended({ failure: result.failure, healthy: false, opened: false });
    this.#replaced(result.objects, result.resourceVersion);
  }

  /** A watch that brings the whole state first. It is staged; the bookmark that ends it makes it valid. */
  async #stream(state: Listing, exchange: Exchange<T>): Promise<void> {
    let staged: Map<string, T> | undefined = new Map<string, T>();
    const end = await watchOnce(exchange, { selector: state.plan.selector, resourceVersion: undefined }, (event) => {
      if (staged === undefined) return this.#pass(event);
      if (event.type === 'applied') staged.set(objectKey(event.object.meta), event.object);
      else if (event.type === 'deleted') staged.delete(objectKey(event.object));
      else if (event.type === 'unusable') this.#warnUnusable(event.reason);
      else if (event.initialEnd) {
        const objects = [...staged.values()];
        staged = undefined;
        this.#watches++;
        this.#report.recovered();
        this.#replaced(objects, event.resourceVersion);
      }
    });
    if (!exchange.signal.aborted) this.#ended(end);
  }

  async #watch(state: Watching, exchange: Exchange<T>): Promise<void> {
    this.#watches++;
    const { resourceVersion, plan } = state;
    const end = await watchOnce(exchange, { selector: plan.selector, resourceVersion }, (event) => {
      this.#report.recovered();
      this.#pass(event);
    });
    if (exchange.signal.aborted) return;
    if (end.healthy) this.#report.recovered();
    this.#ended(end);
  }

  #pass(event: Parameters<Parameters<typeof watchOnce<T>>[2]>[0]): void {
    if (event.type === 'applied') this.#onEvent({ type: 'applied', object: event.object });
    else if (event.type === 'deleted') this.#onEvent({ type: 'deleted', object: event.object });
    else if (event.type === 'unusable') this.#warnUnusable(event.reason);
    this.#progress(event.resourceVersion);
  }

  #warnUnusable(reason: string): void {
    this.#options.log.warn(`ignoring an event of ${this.#options.resource.plural}: ${reason}`);
  }

  async #wait({ next, failure }: Waiting, { client, timing, signal }: Exchange<T>): Promise<void> {
    const chance = backoffDelay(next.failures, timing.backoff, timing.random());
    const delay = Math.max(chance, failure.retryAfterMs ?? 0);
    this.#report.failed(failure, client.server, delay);
    // A kubeconfig may name a new server, a CA or certificate may have been rotated.
    const stale = ['credentials', 'unauthorized', 'unavailable'].includes(failure.kind);
    const problem = stale ? client.refresh() : undefined;
    if (problem !== undefined) this.#options.log.debug(2, `credentials were not read again: ${problem}`);
    try {
      await sleep(delay, undefined, { signal });
    } catch {
      // The signal: run() ends.
      return;
    }
    this.#step({ type: 'waited' });
  }
}
