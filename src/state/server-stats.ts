import type { RealServer } from './real-server.ts';

/** Counters of a virtual server since its creation or the last reset. Incoming means towards the real servers. */
export interface VirtualServerStats {
  readonly connections: number;
  readonly incomingPackets: number;
  readonly outgoingPackets: number;
  readonly incomingBytes: number;
  readonly outgoingBytes: number;
}

/** Counters of one real server since it was added, and its current connections. */
export interface RealServerStats extends VirtualServerStats, Pick<RealServer, 'address' | 'port'> {
  readonly activeConnections: number;
  readonly inactiveConnections: number;
}
