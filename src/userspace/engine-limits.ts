/** The bounds and timeouts of the engine. Times are milliseconds; 0 means none. */
export interface EngineLimits {
  /** Connections and UDP clients of one Service, and of all. */
  readonly mostOfService: number;
  readonly mostInAll: number;
  /** How long a TCP connection may be silent in both directions. */
  readonly tcpIdleMs: number;
  /** The same after one side has closed its direction. */
  readonly tcpHalfClosedIdleMs: number;
  readonly udpIdleMs: number;
  /** How long connections to a removed endpoint may last. */
  readonly drainMs: number;
}

/** They bound the memory, too: an idle connection takes 16 KiB, and one whose peer does not read 55 KiB (mean of 4,000). */
export const DEFAULT_LIMITS: EngineLimits = {
  mostOfService: 4_096,
  mostInAll: 16_384,
  tcpIdleMs: 86_400_000,
  tcpHalfClosedIdleMs: 3_600_000,
  udpIdleMs: 60_000,
  drainMs: 0,
};

/** An endpoint that did not answer an attempt in time is chosen last for so long. */
export const AVOID_MS = 2_000;

/** Timeouts of the attempts to connect to an endpoint, as kube-proxy's former user-space mode had them. */
export const CONNECT_TIMEOUTS_MS = [250, 500, 1_000, 2_000] as const;

/** A Service may have thousands of endpoints that refuse; the engine serves others, too. */
export const MOST_ATTEMPTS = 16;
