import { DEFAULT_BACKOFF } from './backoff.ts';
import type { BackoffOptions } from './backoff.ts';

/** The times and sizes of a reflector; tests make them small. */
export interface ReflectorTiming {
  readonly backoff: BackoffOptions;
  /** Seconds for which the server is asked to watch: by chance between these, so that not all watches end together. */
  readonly watchSeconds: readonly [number, number];
  /** Milliseconds that a watch may outlive its seconds before it counts as stalled. */
  readonly graceMs: number;
  /**
   * Milliseconds without a byte after which a watch that did get bookmarks counts as stalled. A server sends a bookmark about each
   * minute, but only where it has something to say, so before the first one silence means nothing.
   */
  readonly silenceMs: number;
  /** Milliseconds without a byte after which a list counts as stalled. */
  readonly listIdleMs: number;
  /** A watch that lasted so many milliseconds was healthy: the back-off starts afresh. */
  readonly healthyMs: number;
  readonly pageSize: number;
  /** Of one event: etcd stores objects of at most 1.5 MiB, and JSON is no more than a few times that. */
  readonly maxLineBytes: number;
  /** From 0 to 1. */
  readonly random: () => number;
}

export const DEFAULT_TIMING: ReflectorTiming = {
  backoff: DEFAULT_BACKOFF,
  watchSeconds: [300, 600],
  graceMs: 30_000,
  silenceMs: 180_000,
  listIdleMs: 60_000,
  healthyMs: 5_000,
  pageSize: 500,
  maxLineBytes: 32 * 1024 * 1024,
  random: Math.random,
};
