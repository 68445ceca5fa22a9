import { formatRealServer } from '../state/real-server.ts';
import { COUNTERS, NO_STATS, type RealServerStats, type VirtualServerStats } from '../state/server-stats.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';
import type { TrafficBy, TrafficRow } from './replies.ts';

export interface FoundTraffic {
  readonly ids: readonly VirtualServerId[];
  readonly stats: ReadonlyMap<VirtualServerKey, VirtualServerStats>;
  readonly realServers: ReadonlyMap<VirtualServerKey, readonly RealServerStats[]>;
}

type Sum = { -readonly [Field in keyof TrafficRow]: TrafficRow[Field] };

/**
 * Sums the counters by Service, or by endpoint of a Service. A virtual server without an owner has a row of its own.
 * Yields after each virtual server.
 */
export function* trafficRows(
  by: TrafficBy,
  { ids, stats, realServers }: FoundTraffic,
  ownerOf: (id: VirtualServerId) => string | undefined,
): Generator<void, TrafficRow[]> {
  const rows = new Map<string, Sum>();
  for (const id of ids) {
    const key = virtualServerKey(id);
    const of = ownerOf(id) ?? `${formatRealServer(id)}/${id.protocol}`;
    const servers = realServers.get(key) ?? [];
    if (by === 'service') {
      const row = rowOf(rows, of);
      addCounters(row, stats.get(key));
      for (const server of servers) addConnections(row, server);
    } else {
      for (const server of servers) {
        const row = rowOf(rows, of, `${formatRealServer(server)}/${id.protocol}`);
        addCounters(row, server);
        addConnections(row, server);
      }
    }
    yield;
  }
  return [...rows.values()];
}

function rowOf(rows: Map<string, Sum>, of: string, endpoint?: string): Sum {
  const key = `${of} ${endpoint ?? ''}`;
  const row: Sum = rows.get(key) ?? {
    of,
    ...(endpoint === undefined ? {} : { endpoint }),
    activeConnections: 0,
    inactiveConnections: 0,
    ...NO_STATS,
  };
  rows.set(key, row);
  return row;
}

function addCounters(row: Sum, stats: VirtualServerStats | undefined): void {
  if (stats !== undefined) for (const counter of COUNTERS) row[counter] += stats[counter];
}

function addConnections(row: Sum, server: RealServerStats): void {
  row.activeConnections += server.activeConnections;
  row.inactiveConnections += server.inactiveConnections;
}
