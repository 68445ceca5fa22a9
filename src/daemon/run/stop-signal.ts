/** Aborted by SIGTERM, SIGINT or a call of `stop`. */
export class StopSignal {
  readonly #abort = new AbortController();
  readonly #onSignal = (): void => this.stop(0);
  #exitCode = 0;

  constructor() {
    process.once('SIGTERM', this.#onSignal);
    process.once('SIGINT', this.#onSignal);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The first call sets the exit code. */
  stop(exitCode: number): void {
    if (this.signal.aborted) return;
    this.#exitCode = exitCode;
    this.#abort.abort();
  }

  /** Resolves to the exit code once aborted. */
  async wait(): Promise<number> {
    const { signal } = this;
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    return this.#exitCode;
  }

  dispose(): void {
    process.removeListener('SIGTERM', this.#onSignal);
    process.removeListener('SIGINT', this.#onSignal);
  }
}
