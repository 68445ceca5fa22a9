import { type BackoffOptions, DEFAULT_BACKOFF } from './backoff.ts';

/** The timeouts and limits of a reflector; tests use small ones. */
export interface ReflectorTiming {
  readonly backoff: BackoffOptions;
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
  backoff: DEFAULT_BACKOFF,
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
