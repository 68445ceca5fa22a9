import { compareText } from '../../base/text/compare-text.ts';
import { counted } from '../../base/text/counted.ts';
import type { TopReply, TopRow, TrafficBy } from '../../explain/replies.ts';
import { type VirtualServerStats, eachCounter } from '../../state/server-stats.ts';
import type { FleetTopReply, FleetTopRow, SilentNode } from '../fleet-replies.ts';
import type { Older } from '../older.ts';
import { MOST_ROWS, checkedNumber, checkedRows, checkedText } from './checked.ts';
import { fleetReply } from './merge-facts.ts';

export interface TopFacts {
  readonly node: string;
  readonly rows: readonly TopRow[];
  readonly more: number;
}

/** Reads the answer of a node. Throws if it has no rows, or a field has another type. */
export function topFacts(node: string, { rows, more = 0 }: Older<TopReply>): TopFacts {
  return { node, rows: checkedRows(rows).map(rowOf), more: checkedNumber('more', more) };
}

function rowOf({
  of = '',
  endpoint,
  activeConnections = 0,
  inactiveConnections = 0,
  perSecond,
}: Older<TopRow>): TopRow {
  return {
    of: checkedText('of', of),
    ...(endpoint === undefined ? {} : { endpoint: checkedText('endpoint', endpoint) }),
    activeConnections: checkedNumber('activeConnections', activeConnections),
    inactiveConnections: checkedNumber('inactiveConnections', inactiveConnections),
    ...(perSecond === undefined
      ? {}
      : { perSecond: eachCounter((counter) => checkedNumber(counter, perSecond[counter] ?? 0)) }),
  };
}

/** Adds up the traffic of all nodes, by Service or by endpoint. The order of the answers does not matter. */
export function mergeTop(
  by: TrafficBy,
  compare: (a: TopRow, b: TopRow) => number,
  answers: readonly TopFacts[],
  silent: readonly SilentNode[],
): FleetTopReply {
  const sorted = answers.toSorted((a, b) => compareText(a.node, b.node));
  const all = sorted.flatMap(({ node, rows }) => rows.map((row) => ({ node, row })));
  const merged = Array.from(Map.groupBy(all, ({ row }) => `${row.of} ${row.endpoint ?? ''}`).values(), sumOf).toSorted(
    compare,
  );
  const connections = merged.reduce((sum, { perSecond }) => sum + (perSecond?.connections ?? 0), 0);
  const rows = merged.slice(0, MOST_ROWS);
  const verdict = `${connections.toFixed(1)} new connections a second to ${counted(merged.length, by === 'service' ? 'Service' : 'endpoint')}`;
  return {
    ...fleetReply('FleetTop', answers.length, silent, { ok: true, verdict }),
    by,
    rows,
    more: merged.length - rows.length + answers.reduce((sum, { more }) => sum + more, 0),
  };
}

function sumOf(parts: readonly { readonly node: string; readonly row: TopRow }[]): FleetTopRow {
  let activeConnections = 0;
  let inactiveConnections = 0;
  let busiest = { node: '', connections: -1 };
  for (const { node, row } of parts) {
    activeConnections += row.activeConnections;
    inactiveConnections += row.inactiveConnections;
    const connections = row.perSecond?.connections ?? 0;
    if (connections > busiest.connections) busiest = { node, connections };
  }
  const rateOf = (counter: keyof VirtualServerStats): number =>
    parts.reduce((sum, { row }) => sum + (row.perSecond?.[counter] ?? 0), 0);
  const { of = '', endpoint } = parts[0]?.row ?? {};
  return {
    of,
    ...(endpoint === undefined ? {} : { endpoint }),
    activeConnections,
    inactiveConnections,
    ...(parts.some(({ row }) => row.perSecond !== undefined) ? { perSecond: eachCounter(rateOf) } : {}),
    nodes: parts.length,
    busiest: busiest.node,
  };
}
