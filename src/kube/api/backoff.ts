import { doublingDelay } from '../../base/backoff.ts';

export interface BackoffOptions {
  /** Upper bound of the first delay, in milliseconds. */
  readonly firstMs: number;
  /** Upper bound of every delay, in milliseconds. */
  readonly maxMs: number;
}

export const DEFAULT_BACKOFF: BackoffOptions = { firstMs: 800, maxMs: 30_000 };

/**
 * Returns the milliseconds to wait after `failures` consecutive failures (at least 1): a random value between an eighth
 * of `firstMs` and a ceiling that doubles with each failure. All nodes of a cluster lose an API server at the same
 * moment; the jitter keeps them from reconnecting at the same moment. `random` is from 0 to 1.
 */
export function backoffDelay(failures: number, options: BackoffOptions, random: number): number {
  const ceiling = doublingDelay(failures, options.maxMs, options.firstMs);
  const floor = Math.min(options.firstMs / 8, ceiling);
  return floor + random * (ceiling - floor);
}
