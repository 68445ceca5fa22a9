import { compareText } from '../base/text/compare-text.ts';
import { formatRealServer } from '../state/real-server.ts';
import { type RealServerStats, type VirtualServerStats, eachCounter } from '../state/server-stats.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';
import type { CountersReply } from './replies.ts';

export interface FoundCounters {
  readonly stats: ReadonlyMap<VirtualServerKey, VirtualServerStats>;
  readonly realServerStats: ReadonlyMap<VirtualServerKey, readonly RealServerStats[]>;
}

/** Bounds the reply, as the number of endpoints is. */
const MOST_ENDPOINTS = 1_000;

/** Returns the counters of each virtual server, then those of each real server, summed over the virtual servers. */
export function countersOf(
  ids: readonly VirtualServerId[],
  { stats, realServerStats }: FoundCounters,
): CountersReply[] {
  const addresses: CountersReply[] = [];
  const endpoints = new Map<string, CountersReply>();
  for (const id of ids) {
    const key = virtualServerKey(id);
    const own = stats.get(key);
    if (own !== undefined) addresses.push({ at: formatRealServer(id), ...own });
    for (const server of realServerStats.get(key) ?? []) {
      const at = formatRealServer(server);
      const known = endpoints.get(at);
      endpoints.set(at, { at, ...eachCounter((counter) => server[counter] + (known?.[counter] ?? 0)) });
    }
  }
  const inOrder = [...endpoints.values()].toSorted((a, b) => compareText(a.at, b.at));
  return [...addresses, ...inOrder.slice(0, MOST_ENDPOINTS)];
}
