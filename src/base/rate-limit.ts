export interface RateLimitOptions {
  /** Per second. No limit if zero or negative. */
  readonly qps: number;
  /** The most at once after an idle period. */
  readonly burst: number;
}

/** A token bucket. Tokens can be taken in advance. */
export class RateLimit {
  readonly #refillMs: number;
  readonly #burst: number;
  #tokens: number;
  #at: number;

  /** @param now milliseconds of a monotonic clock */
  constructor({ qps, burst }: RateLimitOptions, now: number) {
    this.#refillMs = qps <= 0 ? 0 : 1_000 / qps;
    this.#burst = Math.max(1, burst);
    this.#tokens = this.#burst;
    this.#at = now;
  }

  /** Returns the milliseconds until a token is there. */
  waitMs(now: number): number {
    return this.#refillMs === 0 ? 0 : Math.max(0, 1 - this.#refilled(now)) * this.#refillMs;
  }

  /** Takes a token. Returns the milliseconds to wait until it may be used. */
  take(now: number): number {
    const wait = this.waitMs(now);
    this.#tokens -= 1;
    return wait;
  }

  /** Puts back a token that was not used. */
  giveBack(): void {
    this.#tokens = Math.min(this.#burst, this.#tokens + 1);
  }

  isFull(now: number): boolean {
    return this.#refilled(now) === this.#burst;
  }

  #refilled(now: number): number {
    this.#tokens = Math.min(this.#burst, this.#tokens + (now - this.#at) / this.#refillMs);
    this.#at = now;
    return this.#tokens;
  }
}
