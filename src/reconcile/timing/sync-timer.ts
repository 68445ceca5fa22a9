import type { Clock } from './clock.ts';

/** The kind of sync to run. A full check includes a change sync. */
export type RequestedSync = 'change' | 'full';

/** The next run, unless another one is requested earlier. */
export interface NextRun {
  readonly wanted: RequestedSync;
  /** Delay from the end of the current run. */
  readonly inMs: number;
}

export interface SyncTimerOptions {
  readonly clock: Clock;
  /** Minimum time from the end of a requested run to the next run, in ms. Requests in between are combined. */
  readonly minPeriodMs: number;
  /** Runs a sync; never rejects. */
  readonly run: (wanted: RequestedSync) => Promise<NextRun>;
}

/**
 * Starts one sync at a time. Requests are combined and run at least minPeriodMs apart. Each run also returns the time
 * of the next one (the periodic full check, a retry, a check of draining real servers). A run that was not requested
 * does not delay requests: a change just after a periodic check is as urgent as any other.
 */
export class SyncTimer {
  readonly #options: SyncTimerOptions;
  #state: 'idle' | 'waiting' | 'running' | 'stopped' = 'idle';
  #wanted: RequestedSync | undefined;
  /** Whether the waiting run was requested, rather than merely due. */
  #asked = false;
  #notBefore = 0;
  #cancelWait: () => void = () => {};
  #cancelWake: () => void = () => {};
  #onRequest: () => void = () => {};
  #settled: Promise<void> = Promise.resolve();

  constructor(options: SyncTimerOptions) {
    this.#options = options;
  }

  get running(): boolean {
    return this.#state === 'running';
  }

  request(wanted: RequestedSync): void {
    this.#asked = true;
    this.#want(wanted);
  }

  /** Must be called between the batches of a long run. Runs `work` if a change was requested meanwhile and is due. */
  async runPendingBetweenSteps(work: () => Promise<void>): Promise<void> {
    const { clock, minPeriodMs } = this.#options;
    if (this.#state !== 'running' || this.#wanted !== 'change' || clock.now() < this.#notBefore) return;
    this.#wanted = undefined;
    this.#asked = false;
    await work();
    this.#notBefore = clock.now() + minPeriodMs;
  }

  /** Waits for `underWay`, and runs `work` whenever a requested change becomes due meanwhile. */
  async awaitWhileServing<T>(underWay: Promise<T>, work: () => Promise<void>): Promise<T> {
    let over = false;
    const end = (): void => {
      over = true;
    };
    const ended = underWay.then(end, end);
    while (!over) {
      const due = Promise.withResolvers<void>();
      this.#onRequest = () => this.#wakeWhenDue(due.resolve);
      this.#onRequest();
      await Promise.race([ended, due.promise]);
      this.#onRequest = () => {};
      this.#cancelWait();
      if (!over) await this.runPendingBetweenSteps(work);
    }
    return await underWay;
  }

  #wakeWhenDue(wake: () => void): void {
    const { clock } = this.#options;
    this.#cancelWait();
    if (this.#state !== 'running' || this.#wanted !== 'change') return;
    this.#cancelWait = clock.setTimer(wake, Math.max(0, this.#notBefore - clock.now()));
  }

  #want(wanted: RequestedSync): void {
    if (this.#state === 'stopped') return;
    this.#wanted = this.#wanted === 'full' ? 'full' : wanted;
    if (this.#state === 'idle') this.#schedule();
    else this.#onRequest();
  }

  /** Prevents further runs; resolves when the current one has ended. */
  async stop(): Promise<void> {
    this.#state = 'stopped';
    this.#cancelWait();
    this.#cancelWake();
    await this.#settled;
  }

  #schedule(): void {
    this.#state = 'waiting';
    const { clock } = this.#options;
    const start = (): void => {
      this.#settled = this.#run();
    };
    this.#cancelWait = clock.setTimer(start, Math.max(0, this.#notBefore - clock.now()));
  }

  async #run(): Promise<void> {
    const wanted = this.#wanted;
    if (wanted === undefined) return;
    const { clock, minPeriodMs, run } = this.#options;
    this.#state = 'running';
    this.#wanted = undefined;
    const asked = this.#asked;
    this.#asked = false;
    this.#cancelWake();
    const again = await run(wanted);
    if (asked) this.#notBefore = clock.now() + minPeriodMs;
    if (this.#isStopped()) return;
    this.#state = 'idle';
    this.#cancelWake = clock.setTimer(() => this.#want(again.wanted), again.inMs);
    if (this.#wanted !== undefined) this.#schedule();
  }

  // This is a method because the compiler assumes that #state does not change while run() is awaited.
  #isStopped(): boolean {
    return this.#state === 'stopped';
  }
}
