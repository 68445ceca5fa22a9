import type { Clock } from './clock.ts';

/** What a run is asked to do. A full check includes a change sync. */
export type Wanted = 'change' | 'full';

/** When a run wants to be followed by another, in ms from its end. */
export interface NextRun {
  readonly wanted: Wanted;
  readonly inMs: number;
}

export interface SyncTimerOptions {
  readonly clock: Clock;
  /** From the end of one run that was asked for to the start of the next, in ms; requests in between become one. */
  readonly minPeriodMs: number;
  /** Does the work; never rejects. */
  readonly run: (wanted: Wanted) => Promise<NextRun>;
}

/**
 * When to sync: one run at a time, requests coalesced, a pause of minPeriod between runs, and a wake-up that each run asks for
 * (the periodic full check, a retry, a look at what drains). A run that nobody but the clock has asked for is followed by no pause: a
 * change that comes just after a periodic check is as urgent as any other.
 */
export class SyncTimer {
  readonly #options: SyncTimerOptions;
  #state: 'idle' | 'waiting' | 'running' | 'stopped' = 'idle';
  #wanted: Wanted | undefined;
  /** What waits to be run was not only wanted by the clock. */
  #asked = false;
  #notBefore = 0;
  #cancelWait: () => void = () => {};
  #cancelWake: () => void = () => {};
  #onRequest: () => void = () => {};
  #settled: Promise<void> = Promise.resolve();

  constructor(options: SyncTimerOptions) {
    this.#options = options;
  }

  request(wanted: Wanted): void {
    this.#asked = true;
    this.#want(wanted);
  }

  /**
   * To be called between the pieces of a long run: what was asked for since, and is due, goes first. `work` does what a run of
   * its own would do.
   */
  async interlude(work: () => Promise<void>): Promise<void> {
    const { clock, minPeriodMs } = this.#options;
    if (this.#state !== 'running' || this.#wanted !== 'change' || clock.now() < this.#notBefore) return;
    this.#wanted = undefined;
    this.#asked = false;
    await work();
    this.#notBefore = clock.now() + minPeriodMs;
  }

  /** Waits for what is under way, with interludes beside it: for a part of a run that may be overtaken. */
  async beside<T>(underWay: Promise<T>, work: () => Promise<void>): Promise<T> {
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
      if (!over) await this.interlude(work);
    }
    return await underWay;
  }

  #wakeWhenDue(wake: () => void): void {
    const { clock } = this.#options;
    this.#cancelWait();
    if (this.#state !== 'running' || this.#wanted !== 'change') return;
    this.#cancelWait = clock.setTimer(wake, Math.max(0, this.#notBefore - clock.now()));
  }

  #want(wanted: Wanted): void {
    if (this.#state === 'stopped') return;
    this.#wanted = this.#wanted === 'full' ? 'full' : wanted;
    if (this.#state === 'idle') this.#schedule();
    else this.#onRequest();
  }

  /** Nothing starts any more; resolves when the run under way has ended. */
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

  // stop() may have been called while run() was awaited: the compiler cannot know.
  #isStopped(): boolean {
    return this.#state === 'stopped';
  }
}
