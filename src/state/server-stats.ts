import type { RealServer } from './real-server.ts';

/** Counters of a virtual server since its creation or the last reset. Incoming means towards the real servers. */
export interface VirtualServerStats {
  readonly connections: number;
  readonly incomingPackets: number;
  readonly outgoingPackets: number;
  readonly incomingBytes: number;
  readonly outgoingBytes: number;
}

export const COUNTERS = [
  'connections',
  'incomingPackets',
  'outgoingPackets',
  'incomingBytes',
  'outgoingBytes',
] as const satisfies readonly (keyof VirtualServerStats)[];

/** Returns counters, each of which has the value that `read` returns. */
export function eachCounter(read: (counter: keyof VirtualServerStats) => number): VirtualServerStats {
  return Object.fromEntries(COUNTERS.map((counter) => [counter, read(counter)])) as unknown as VirtualServerStats;
}

export const NO_STATS: VirtualServerStats = eachCounter(() => 0);

/** Counters of one real server since it was added, and its current connections. */
export interface RealServerStats extends VirtualServerStats, Pick<RealServer, 'address' | 'port'> {
  readonly activeConnections: number;
  readonly inactiveConnections: number;
}
