export interface RateLimitOptions {
  /** Requests a second; negative: no limit. */
  readonly qps: number;
  /** Requests at once, after a pause. */
  readonly burst: number;
}

/** A bucket of tokens: whoever takes one that is not there yet is told how long to wait for it, in the order of asking. */
export class RateLimit {
  readonly #qps: number;
  readonly #burst: number;
  #tokens: number;
  #at: number;

  /** @param now milliseconds of any clock that never goes back */
  constructor({ qps, burst }: RateLimitOptions, now: number) {
    this.#qps = qps;
    this.#burst = Math.max(1, burst);
    this.#tokens = this.#burst;
    this.#at = now;
  }

  /** Takes a token; milliseconds until it is there. */
  take(now: number): number {
    if (this.#qps <= 0) return 0;
    this.#tokens = Math.min(this.#burst, this.#tokens + ((now - this.#at) / 1_000) * this.#qps);
    this.#at = now;
    this.#tokens -= 1;
    return this.#tokens >= 0 ? 0 : (-this.#tokens / this.#qps) * 1_000;
  }

  /** Of someone who did not wait for it after all. */
  giveBack(): void {
    this.#tokens = Math.min(this.#burst, this.#tokens + 1);
  }
}
