import { IP_FAMILIES, type IpFamily } from '../base/ip.ts';
import type { Endpoint } from '../state/real-server.ts';
import type { VirtualServerId } from '../state/virtual-server.ts';

/** Counts since the engine started. */
export interface EngineCounters {
  /** TCP connections and UDP clients that were accepted. */
  connections: number;
  /** Those among them that have not ended. */
  active: number;
  /** Refused because a limit was reached, or the destination or its endpoints are unknown. */
  refused: number;
  /** Attempts to reach an endpoint that failed: refused, unreachable or timed out. */
  failedConnects: number;
  /** Connections that ended because every endpoint failed. */
  failedConnections: number;
  /** UDP: more waited to be sent than a queue takes, or the socket had closed. */
  droppedDatagrams: number;
  /** From clients to endpoints. */
  bytesIn: number;
  bytesOut: number;
}

export function noCounts(): EngineCounters {
  return {
    connections: 0,
    active: 0,
    refused: 0,
    failedConnects: 0,
    failedConnections: 0,
    droppedDatagrams: 0,
    bytesIn: 0,
    bytesOut: 0,
  };
}

export function addCounts(total: EngineCounters, counts: Readonly<EngineCounters>): void {
  total.connections += counts.connections;
  total.active += counts.active;
  total.refused += counts.refused;
  total.failedConnects += counts.failedConnects;
  total.failedConnections += counts.failedConnections;
  total.droppedDatagrams += counts.droppedDatagrams;
  total.bytesIn += counts.bytesIn;
  total.bytesOut += counts.bytesOut;
}

export interface EngineReport {
  /** The sums over all ports, also those that have ended. */
  readonly totals: EngineCounters;
  /** Ports that are open, by the family of their address. */
  readonly listening: Readonly<Record<IpFamily, number>>;
  /** The listeners that could not listen; they are tried again. */
  readonly refusedListeners: readonly RefusedListener[];
}

/** Of an endpoint since it was added. */
export type EndpointCounters = Pick<EngineCounters, 'connections' | 'active' | 'bytesIn' | 'bytesOut'>;

export interface PortTraffic {
  readonly counters: EngineCounters;
  /** Without those that have left. */
  readonly endpoints: readonly (Endpoint & EndpointCounters)[];
}

/** By the key of the forwarded port. */
export type EngineTraffic = ReadonlyMap<string, PortTraffic>;

/** Returns the sums of several engines. */
export function sumOfReports(reports: readonly EngineReport[]): EngineReport {
  const totals = noCounts();
  const listening = { 4: 0, 6: 0 };
  for (const report of reports) {
    addCounts(totals, report.totals);
    for (const family of IP_FAMILIES) listening[family] += report.listening[family];
  }
  return {
    totals,
    listening,
    refusedListeners: reports.flatMap(({ refusedListeners }) => refusedListeners),
  };
}

/** A listener that could not listen. */
export interface RefusedListener extends VirtualServerId {
  /** An errno such as "EADDRINUSE"; EPROTONOSUPPORT for SCTP, of which Node.js has no sockets. */
  readonly code: string;
  /** The program that has the port, as "nginx (pid 12)", if it is known. */
  readonly owner?: string;
}
