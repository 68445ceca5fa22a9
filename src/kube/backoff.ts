export interface BackoffOptions {
  /** Milliseconds: the most that the first wait takes. */
  readonly firstMs: number;
  /** Milliseconds: the most that any wait takes. */
  readonly maxMs: number;
}

export const DEFAULT_BACKOFF: BackoffOptions = { firstMs: 800, maxMs: 30_000 };

/**
 * Milliseconds to wait after so many failures in a row (from 1): anywhere between an eighth of the first wait and a ceiling that
 * doubles. All nodes of a cluster lose an API server in the same moment; only chance keeps them from returning in the same moment.
 * `random` is from 0 to 1.
 */
export function backoffDelay(failures: number, options: BackoffOptions, random: number): number {
  const ceiling = Math.min(options.maxMs, options.firstMs * 2 ** Math.min(failures - 1, 30));
  const floor = Math.min(options.firstMs / 8, ceiling);
  return floor + random * (ceiling - floor);
}
