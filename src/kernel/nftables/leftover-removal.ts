/** Much longer than a packet takes through the rules. */
const FIRST_MS = 1_000;
const MOST_MS = 64_000;

export interface LeftoverRemovalOptions {
  readonly isNeeded: () => boolean;
  /** Deletes what can be deleted. */
  readonly remove: () => Promise<void>;
}

/** Deletes the leftovers of changes, a second later. What cannot be deleted is tried again, each time after twice the delay. */
export class LeftoverRemoval {
  readonly #options: LeftoverRemovalOptions;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: LeftoverRemovalOptions) {
    this.#options = options;
  }

  /** After a change. */
  restart(): void {
    this.#after(FIRST_MS);
  }

  /** After a read, which may have found something. */
  start(): void {
    if (this.#timer === undefined) this.restart();
  }

  /** Tries once more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    if (this.#options.isNeeded()) await this.#options.remove();
  }

  #after(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#isClosed || !this.#options.isNeeded()) return;
    const timer = setTimeout(() => {
      void this.#options.remove().then(() => {
        if (this.#timer === timer) this.#after(Math.min(2 * ms, MOST_MS));
      });
    }, ms).unref();
    this.#timer = timer;
  }
}
