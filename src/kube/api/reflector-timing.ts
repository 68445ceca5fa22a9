import { doublingDelay } from '../../base/timer.ts';

/** The timeouts and limits of a reflector; tests use small ones. */
export interface ReflectorTiming {
  /** Upper bounds of the first delay and of every delay after a failure, in milliseconds. */
  readonly backoff: { readonly firstMs: number; readonly maxMs: number };
  /** Range of the random timeoutSeconds of a watch, so that not all watches end together. */
  readonly watchSeconds: readonly [number, number];
  /** A watch counts as stalled this many milliseconds after its timeoutSeconds. */
  readonly graceMs: number;
  /**
   * Milliseconds without data after which a watch counts as stalled, once it has received a bookmark. Servers send
   * about one bookmark per minute, but not all servers do, so silence before the first one means nothing.
   */
  readonly silenceMs: number;
  /** Milliseconds without data after which a list counts as stalled. */
  readonly listIdleMs: number;
  /** Milliseconds without data of a list after which `onSlow` is called. */
  readonly slowMs: number;
  /** A watch that lasted this many milliseconds resets the back-off. */
  readonly healthyMs: number;
  readonly pageSize: number;
  /** Maximum size of one event. etcd stores objects of up to 1.5 MiB; their JSON is at most a few times larger. */
  readonly maxLineBytes: number;
  /** Returns a random number from 0 to 1. */
  readonly random: () => number;
}

export const DEFAULT_TIMING: ReflectorTiming = {
  backoff: { firstMs: 800, maxMs: 30_000 },
  watchSeconds: [300, 600],
  graceMs: 30_000,
  silenceMs: 180_000,
  listIdleMs: 60_000,
  slowMs: 9_000,
  healthyMs: 5_000,
  pageSize: 500,
  maxLineBytes: 32 * 1024 * 1024,
  random: Math.random,
};

/**
 * Returns the milliseconds to wait after `failures` consecutive failures (at least 1): a random value between an eighth
 * of `firstMs` and a ceiling that doubles with each failure. All nodes of a cluster lose an API server at the same
 * moment; the jitter keeps them from reconnecting at the same moment. It is added to what the server demands (Retry-After),
 * because it demands the same of all.
 */
export function backoffDelay(failures: number, { backoff, random }: ReflectorTiming, demandedMs = 0): number {
  const ceiling = doublingDelay(failures, backoff.maxMs, backoff.firstMs);
  const floor = Math.min(backoff.firstMs / 8, ceiling);
  return demandedMs + floor + random() * (ceiling - floor);
}
