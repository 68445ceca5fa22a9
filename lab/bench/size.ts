import type { ClusterShape } from './large-cluster.ts';

/** How large and how often: what a row may choose from. */
export interface Size {
  /** All of the bench in three minutes: what takes long is made smaller or left out. */
  readonly quick: boolean;
  /** Alternations of ours and baseline. */
  readonly runs: number;
  /** The same where one run takes minutes at full size. */
  readonly slowRuns: number;
  /** A count of services, of the full bench: scaled down in a smaller one. */
  readonly services: (full: number) => number;
  /** Services of all kinds, as a real cluster mixes them; scaled likewise. */
  readonly mixed: (services: number, endpoints: number) => ClusterShape;
}

/** BENCH_SERVICES=N replaces the 10,000 Services of the full bench; all other numbers are scaled in proportion. */
const FULL_SERVICES = 10_000;
const RUNS = {
  full: { runs: 10, slowRuns: 3, services: FULL_SERVICES },
  quick: { runs: 3, slowRuns: 1, services: 1_000 },
} as const;

export interface SizeSettings {
  readonly quick: boolean;
  readonly services?: number | undefined;
  readonly runs?: number | undefined;
}

export function makeSize({ quick, services: wanted, runs }: SizeSettings): Size {
  const base = quick ? RUNS.quick : RUNS.full;
  const scale = (wanted ?? base.services) / FULL_SERVICES;
  const services = (full: number): number => Math.max(1, Math.round(full * scale));
  return {
    quick,
    runs: runs ?? base.runs,
    slowRuns: Math.min(runs ?? base.slowRuns, base.slowRuns),
    services,
    mixed: (full, endpoints) => ({
      services: services(full),
      endpoints,
      // All multiples of ten: services 1 to 9 of each ten are plain ones, TCP on one ClusterIP.
      dualStackEvery: 10,
      nodePortEvery: 20,
      udpEvery: 30,
      loadBalancerEvery: 50,
    }),
  };
}

/** "10000x5". */
export function sizeName({ services, endpoints }: ClusterShape): string {
  return `${services}x${endpoints}`;
}
