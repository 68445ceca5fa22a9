import type { RealServerStats, VirtualServerStats } from '../../state/server-stats.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import type { EndpointCounters, EngineTraffic, PortTraffic } from '../../userspace/engine-report.ts';
import { engineKey } from './engine-state.ts';

/** What the engine has forwarded for these virtual servers; those that it does not serve are absent. */
export function trafficOf<T>(
  traffic: EngineTraffic,
  ids: readonly VirtualServerId[],
  stats: (traffic: PortTraffic) => T,
): Map<VirtualServerKey, T> {
  return new Map(
    ids.flatMap((id) => {
      const found = traffic.get(engineKey(id));
      return found === undefined ? [] : [[virtualServerKey(id), stats(found)] as const];
    }),
  );
}

/** The engine sees no packets. */
export function statsOf({
  connections,
  bytesIn,
  bytesOut,
}: Pick<EndpointCounters, 'connections' | 'bytesIn' | 'bytesOut'>): VirtualServerStats {
  return { connections, incomingPackets: 0, outgoingPackets: 0, incomingBytes: bytesIn, outgoingBytes: bytesOut };
}

export function endpointStatsOf({ endpoints }: PortTraffic): RealServerStats[] {
  return endpoints.map((endpoint) => {
    const { address, port, active } = endpoint;
    return { address, port, ...statsOf(endpoint), activeConnections: active, inactiveConnections: 0 };
  });
}
