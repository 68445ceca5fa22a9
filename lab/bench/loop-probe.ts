/** Milliseconds between two looks at the clock. */
const INTERVAL = 2;

/** The longest time for which nothing else got its turn. */
export interface Held {
  /** By the clock on the wall: other processes on the same CPU are in it. */
  readonly wallMs: number;
  /** Of that, at most so much was this thread's own work. */
  readonly cpuMs: number;
}

/**
 * How long the event loop is held up: a timer looks how late it is, and how much of the time since the last look this thread itself
 * has used. On a busy machine, only the second one describes our code.
 */
export class LoopProbe {
  #timer: NodeJS.Timeout | undefined;
  #wall = 0;
  #cpu = 0;
  #last = performance.now();
  #used = process.threadCpuUsage();

  start(): void {
    this.#last = performance.now();
    this.#used = process.threadCpuUsage();
    this.#timer = setInterval(() => this.#look(), INTERVAL);
    this.#timer.unref();
  }

  /** The worst since the last time it was asked, up to now. */
  take(): Held {
    this.#look();
    const held = { wallMs: this.#wall, cpuMs: this.#cpu };
    this.#wall = 0;
    this.#cpu = 0;
    return held;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const now = performance.now();
    const used = process.threadCpuUsage();
    this.#wall = Math.max(this.#wall, now - this.#last - INTERVAL);
    this.#cpu = Math.max(this.#cpu, (used.user + used.system - this.#used.user - this.#used.system) / 1_000);
    this.#last = now;
    this.#used = used;
  }
}
