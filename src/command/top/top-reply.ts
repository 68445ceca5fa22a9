import { compareText } from '../../base/text/compare-text.ts';
import { counted } from '../../base/text/counted.ts';
import { kernelOnly } from '../../explain/kernel-only.ts';
import {
  REPLY_API_VERSION,
  type TopReply,
  type TopRow,
  type TrafficReply,
  type TrafficRow,
} from '../../explain/replies.ts';
import { COUNTERS, NO_STATS, type VirtualServerStats, eachCounter } from '../../state/server-stats.ts';

/** The columns by which rows can be sorted: the greatest first, names in their order. */
export const SORTS = ['connections', 'active', 'inactive', 'packets', 'bytes', 'name'] as const;
export type Sort = (typeof SORTS)[number];

/** Returns the traffic between two reads of the counters. */
export function topReply(before: TrafficReply, now: TrafficReply, sort: Sort): TopReply {
  const seconds = now.readAtSeconds - before.readAtSeconds;
  const earlier = new Map(before.rows.map((row) => [nameOf(row), row]));
  const rows = now.rows.map((row): TopRow => {
    const { activeConnections, inactiveConnections, of, endpoint } = row;
    // A row that is new began at zero, unless the earlier read left some out.
    const base = earlier.get(nameOf(row)) ?? (before.more === 0 ? NO_STATS : undefined);
    const perSecond = base && ratesOf(row, base, seconds);
    return {
      of,
      ...(endpoint === undefined ? {} : { endpoint }),
      activeConnections,
      inactiveConnections,
      ...(perSecond === undefined ? {} : { perSecond }),
    };
  });
  const connections = rows.reduce((sum, { perSecond }) => sum + (perSecond?.connections ?? 0), 0);
  const { node, ok, by, more, silent } = now;
  const what = by === 'endpoint' ? 'endpoint' : now.kernelOnly === true ? 'virtual server' : 'Service';
  const verdict =
    `${connections.toFixed(1)} new connections a second on node ${node}, in ${seconds.toFixed(1)} s, to ` +
    counted(rows.length + more, what);
  return {
    apiVersion: REPLY_API_VERSION,
    ...(now.kernelOnly === true ? kernelOnly('Top', node, verdict) : { kind: 'Top', node, ok, verdict }),
    by,
    seconds,
    rows: rows.toSorted(rowOrder(sort)),
    more,
    ...(silent === undefined ? {} : { silent }),
  };
}

/** Returns what compares two rows: the greatest first, equal ones by name. */
export function rowOrder(sort: Sort): (a: TopRow, b: TopRow) => number {
  const value = VALUES[sort];
  return (a, b) => value(b) - value(a) || compareText(nameOf(a), nameOf(b));
}

const VALUES: Readonly<Record<Sort, (row: TopRow) => number>> = {
  connections: ({ perSecond }) => perSecond?.connections ?? 0,
  active: ({ activeConnections }) => activeConnections,
  inactive: ({ inactiveConnections }) => inactiveConnections,
  packets: ({ perSecond }) => (perSecond?.incomingPackets ?? 0) + (perSecond?.outgoingPackets ?? 0),
  bytes: ({ perSecond }) => (perSecond?.incomingBytes ?? 0) + (perSecond?.outgoingBytes ?? 0),
  name: () => 0,
};

function nameOf({ of, endpoint = '' }: Pick<TopRow, 'of' | 'endpoint'>): string {
  return `${of} ${endpoint}`;
}

/** Undefined if a counter decreased: a virtual server or real server was deleted meanwhile. */
function ratesOf(now: TrafficRow, before: VirtualServerStats, seconds: number): VirtualServerStats | undefined {
  if (seconds <= 0 || COUNTERS.some((counter) => now[counter] < before[counter])) return undefined;
  return eachCounter((counter) => (now[counter] - before[counter]) / seconds);
}
