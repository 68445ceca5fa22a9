export interface RateLimitOptions {
  /** Requests per second. No limit if zero or negative. */
  readonly qps: number;
  /** Maximum number of requests that are sent at once after an idle period. */
  readonly burst: number;
}

/** A token bucket that reserves tokens in advance and returns how long to wait for each. */
export class RateLimit {
  readonly #qps: number;
  readonly #burst: number;
  #tokens: number;
  #at: number;

  /** @param now milliseconds of a monotonic clock */
  constructor({ qps, burst }: RateLimitOptions, now: number) {
    this.#qps = qps;
    this.#burst = Math.max(1, burst);
    this.#tokens = this.#burst;
    this.#at = now;
  }

  /** Takes a token. Returns the milliseconds to wait before sending the request. */
  take(now: number): number {
    if (this.#qps <= 0) return 0;
    this.#tokens = Math.min(this.#burst, this.#tokens + ((now - this.#at) / 1_000) * this.#qps);
    this.#at = now;
    this.#tokens -= 1;
    return this.#tokens >= 0 ? 0 : (-this.#tokens / this.#qps) * 1_000;
  }

  /** Puts back a token whose request was not sent. */
  giveBack(): void {
    this.#tokens = Math.min(this.#burst, this.#tokens + 1);
  }
}
