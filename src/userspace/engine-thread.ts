import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { errorText } from '../base/text/error-text.ts';
import { setTimer } from '../base/timer.ts';
import type { EngineMessage, EngineQuestion, EngineStart } from './engine-messages.ts';
import type { EngineReport, EngineTraffic, RefusedListener } from './engine-report.ts';
import type { EngineUpdate } from './engine-update.ts';
import { WantedState } from './wanted-state.ts';

/** The file of the worker, which scripts/bundle.ts names. */
declare const __engineWorker: string | undefined;
const WORKER = typeof __engineWorker === 'undefined' ? './engine-worker.ts' : __engineWorker;

/** When a worker that ended is started again. */
const RESTART_MS = 1_000;
/** The bound of the worker's heap, for Services and for each connection, which takes 7 KiB. Buffers are outside of it. */
const HEAP_OF_SERVICES_MB = 128;
const HEAP_OF_CONNECTION_MB = 10 / 1024;
/** Longer than a connection takes to be opened, and most answers of UDP. */
const SETTLE_MS = 1_000;
/** A Pod has a grace period of 30 s, of which the rules may need a part. */
const DRAIN_MS = 10_000;
const CHECK_MS = 100;

export interface EngineThreadOptions extends EngineStart {
  /** Called when a listener is refused, and when the reason changes. */
  readonly onRefused: (refused: RefusedListener) => void;
  /** Called when the worker ended by itself, with the reason. Its connections have broken; it is started again. */
  readonly onFailure: (reason: string) => void;
}

type Answer = Exclude<EngineMessage, { readonly kind: 'refused' }>;

/** The engine in a worker thread. */
export class EngineThread {
  readonly #options: EngineThreadOptions;
  readonly #wanted = new WantedState();
  readonly #waiting = new Map<number, (answer: Answer | undefined) => void>();
  #worker: Worker | undefined;
  #number = 0;
  #closed = false;
  #cancelRestart: () => void = () => undefined;

  constructor(options: EngineThreadOptions) {
    this.#options = options;
    this.#start();
  }

  /** Resolves when each new listener listens or was refused, or when the worker has ended. */
  async apply(update: EngineUpdate): Promise<void> {
    this.#wanted.apply(update);
    await this.#ask((number) => ({ kind: 'apply', number, update }));
  }

  /** Undefined if the worker does not run. */
  async report(): Promise<EngineReport | undefined> {
    const answer = await this.#ask((number) => ({ kind: 'report', number }));
    return answer?.kind === 'report' ? answer.report : undefined;
  }

  /** As Engine.traffic; undefined if the worker does not run. */
  async traffic(keys?: readonly string[]): Promise<EngineTraffic | undefined> {
    const answer = await this.#ask((number) => ({ kind: 'traffic', number, keys }));
    return answer?.kind === 'traffic' ? answer.traffic : undefined;
  }

  /** Ends the listeners a moment later, when connections that are being opened have been accepted. */
  async stopListening(): Promise<void> {
    await sleep(SETTLE_MS);
    await this.apply({ whole: false, endedListeners: this.#wanted.update.listeners ?? [] });
  }

  /** Resolves when the last connection has ended, or after 10 s. */
  async drain(): Promise<void> {
    const deadline = performance.now() + DRAIN_MS;
    while (performance.now() < deadline && ((await this.report())?.totals.active ?? 0) > 0) await sleep(CHECK_MS);
  }

  /** Ends every connection. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelRestart();
    await this.#worker?.terminate();
    this.#ended();
  }

  #start(): void {
    const { limits } = this.#options;
    const data: EngineStart = { limits };
    const worker = new Worker(new URL(WORKER, import.meta.url), {
      name: 'userspace engine',
      workerData: data,
      execArgv: [],
      resourceLimits: {
        maxOldGenerationSizeMb: Math.ceil(HEAP_OF_SERVICES_MB + limits.mostInAll * HEAP_OF_CONNECTION_MB),
        maxYoungGenerationSizeMb: 8,
      },
    });
    this.#worker = worker;
    let reason = 'it exited';
    worker.on('message', (message: EngineMessage) => this.#received(message));
    worker.once('error', (error) => (reason = errorText(error)));
    worker.once('exit', () => {
      if (this.#closed) return;
      this.#ended();
      this.#options.onFailure(reason);
      this.#cancelRestart = setTimer(() => this.#restart(), RESTART_MS);
    });
  }

  #restart(): void {
    this.#start();
    void this.#ask((number) => ({ kind: 'apply', number, update: this.#wanted.update }));
  }

  async #ask(question: (number: number) => EngineQuestion): Promise<Answer | undefined> {
    if (this.#worker === undefined) return undefined;
    const number = this.#number++;
    const { promise, resolve } = Promise.withResolvers<Answer | undefined>();
    this.#waiting.set(number, resolve);
    this.#worker.postMessage(question(number));
    return await promise;
  }

  #received(message: EngineMessage): void {
    if (message.kind === 'refused') {
      this.#options.onRefused(message.refused);
      return;
    }
    this.#waiting.get(message.number)?.(message);
    this.#waiting.delete(message.number);
  }

  #ended(): void {
    this.#worker = undefined;
    for (const resolve of this.#waiting.values()) resolve(undefined);
    this.#waiting.clear();
  }
}
