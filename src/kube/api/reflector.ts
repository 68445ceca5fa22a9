import { setTimeout as sleep } from 'node:timers/promises';
import { WATCH_ENDED, type WatchObserver } from '../../observe/api-observer.ts';
import type { Exchange } from './exchange.ts';
import { type CredentialReport, FailureReport } from './failure-report.ts';
import { currentVersion, isOlder, listPages } from './list.ts';
import type { ObjectMeta } from '../objects/objects.ts';
import {
  type Listing,
  type ReflectorInput,
  type ReflectorState,
  type Waiting,
  type Watching,
  nextState,
} from './reflector-state.ts';
import { backoffDelay } from './reflector-timing.ts';
import { type ObjectEvent, objectKey } from '../objects/source.ts';
import { type WatchEnd, watchOnce } from './watch.ts';

export interface ReflectorOptions<T extends { readonly meta: ObjectMeta }> extends Omit<
  Exchange<T>,
  'signal' | 'onSlow'
> {
  /** Shared by all reflectors of a client. */
  readonly credentials: CredentialReport;
  /** Whether the server has refused WatchList; shared by all reflectors of a client. */
  readonly streaming: { refused: boolean };
  readonly observer?: WatchObserver;
}

const FIRST: Listing = { name: 'listing', plan: { how: 'stream', from: 'cache', selector: 0 }, failures: 0 };

/**
 * Lists and watches one resource of the API server. Emits one `replaced` for each list, then each change once, in the
 * server's order. reflector-state.ts decides the next step; this class performs it.
 */
export class Reflector<T extends { readonly meta: ObjectMeta }> {
  readonly #options: ReflectorOptions<T>;
  readonly #report: FailureReport;
  #state: ReflectorState = FIRST;
  #onEvent: (event: ObjectEvent<T>) => void = () => {};
  #synced = false;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#report = new FailureReport(options.resource.plural, options.log, options.credentials);
  }

  /** Whether the first `replaced` was emitted. */
  get synced(): boolean {
    return this.#synced;
  }

  /** Runs until the signal aborts, and emits nothing after that. Rejects only if `onEvent` throws, which is a bug. */
  async run(onEvent: (event: ObjectEvent<T>) => void, signal: AbortSignal): Promise<void> {
    this.#onEvent = (event) => {
      if (!signal.aborted) onEvent(event);
    };
    this.#options.observer?.setWatchState(this.#options.resource.plural, this.#state.name);
    const onSlow = (reason: string): void => this.#report.slow(reason, this.#options.client.server);
    const exchange: Exchange<T> = { ...this.#options, signal, onSlow };
    while (!signal.aborted) await this.#act(exchange);
  }

  async #act(exchange: Exchange<T>): Promise<void> {
    const state = this.#state;
    if (state.name === 'watching' && state.doubtful) await this.#confirm(state, exchange);
    else if (state.name === 'watching') await this.#watch(state, exchange);
    else if (state.name === 'waiting') await this.#wait(state, exchange);
    else if (state.plan.how === 'pages') await this.#list(state, exchange);
    else if (this.#options.streaming.refused) this.#step({ type: 'no-stream' });
    else await this.#stream(state, exchange);
  }

  #step(input: ReflectorInput): void {
    const { resource, observer } = this.#options;
    const before = this.#state.name;
    this.#state = nextState(this.#state, input, resource.selectors.length);
    if (this.#state.name !== before) observer?.setWatchState(resource.plural, this.#state.name);
  }

  #ended(end: WatchEnd): void {
    this.#options.observer?.watchRestarted(this.#options.resource.plural, end.failure?.kind ?? WATCH_ENDED);
    this.#step({ type: 'ended', ...end });
  }

  #replaced(objects: readonly T[], resourceVersion: string): void {
    this.#synced = true;
    this.#report.arrived();
    this.#onEvent({ type: 'replaced', objects });
    this.#step({ type: 'listed', resourceVersion });
  }

  #progress(resourceVersion: string): void {
    if (resourceVersion !== '') this.#step({ type: 'progress', resourceVersion });
  }

  async #list(state: Listing, exchange: Exchange<T>): Promise<void> {
    const result = await listPages(exchange, state.plan);
    if (exchange.signal.aborted) return;
    if (!result.ok) return this.#ended({ failure: result.failure, healthy: false, opened: false, early: true });
    this.#replaced(result.objects, result.resourceVersion);
  }

  /** Opens a watch that starts with all objects (WatchList). Collects them until the bookmark that follows them. */
  async #stream(state: Listing, exchange: Exchange<T>): Promise<void> {
    const { streaming, log } = this.#options;
    let staged: Map<string, T> | undefined = new Map<string, T>();
    const end = await watchOnce(exchange, { selector: state.plan.selector, resourceVersion: undefined }, (event) => {
      if (staged === undefined) return this.#pass(event);
      if (event.type === 'applied') staged.set(objectKey(event.object.meta), event.object);
      else if (event.type === 'deleted') staged.delete(objectKey(event.object));
      else if (event.type === 'unusable') this.#warnUnusable(event.reason);
      else if (event.initialEnd) {
        const objects = [...staged.values()];
        staged = undefined;
        this.#report.recovered();
        this.#replaced(objects, event.resourceVersion);
      }
    });
    if (exchange.signal.aborted) return;
    if (end.failure?.kind === 'unstreamable' && !streaming.refused) {
      streaming.refused = true;
      log.debug(2, `the API server does not support WatchList: using lists and watches (${end.failure.message})`);
    }
    this.#ended(end);
  }

  async #watch(state: Watching, exchange: Exchange<T>): Promise<void> {
    const { resourceVersion, plan } = state;
    const end = await watchOnce(exchange, { selector: plan.selector, resourceVersion }, (event) => {
      this.#report.recovered();
      this.#pass(event);
    });
    if (exchange.signal.aborted) return;
    if (end.healthy) this.#report.recovered();
    this.#ended(end);
  }

  /**
   * The server accepts a watch after a version that it has not reached, and stays silent until it has. It never tells
   * which objects are gone.
   */
  async #confirm({ resourceVersion, plan }: Watching, exchange: Exchange<T>): Promise<void> {
    const current = await currentVersion(exchange, plan.selector);
    if (exchange.signal.aborted) return;
    if (typeof current !== 'string')
      return this.#ended({ failure: current, healthy: false, opened: false, early: true });
    if (!isOlder(current, resourceVersion)) return this.#step({ type: 'confirmed' });
    const { log, resource } = this.#options;
    log.warn(
      `the API server's state is older than ours (resourceVersion ${current}, ours is ${resourceVersion}): listing ${resource.plural} again; was etcd restored from a backup?`,
    );
    this.#step({ type: 'rewound' });
  }

  #pass(event: Parameters<Parameters<typeof watchOnce<T>>[2]>[0]): void {
    if (event.type === 'applied') this.#onEvent({ type: 'applied', object: event.object });
    else if (event.type === 'deleted') this.#onEvent({ type: 'deleted', object: event.object });
    else if (event.type === 'unusable') this.#warnUnusable(event.reason);
    this.#progress(event.resourceVersion);
  }

  #warnUnusable(reason: string): void {
    this.#options.log.warn(`ignoring a watch event of ${this.#options.resource.plural}: ${reason}`);
  }

  async #wait({ next, failure }: Waiting, { client, timing, signal }: Exchange<T>): Promise<void> {
    const delay = backoffDelay(next.failures, timing, failure.retryAfterMs);
    this.#report.failed(failure, client.server, delay);
    // The kubeconfig may name a new server, or a CA or certificate may have been rotated.
    const stale = ['credentials', 'unauthorized', 'unavailable'].includes(failure.kind);
    const problem = stale ? client.refresh() : undefined;
    if (problem !== undefined) this.#options.log.debug(2, `failed to reread the credentials: ${problem}`);
    // sleep() rejects only when aborted, which ends run().
    await sleep(delay, undefined, { signal }).catch(() => undefined);
    this.#step({ type: 'waited' });
  }
}
