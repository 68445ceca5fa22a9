import type { TopReply, TopRow } from '../../explain/replies.ts';
import { COUNTERS } from '../../state/server-stats.ts';
import { silentLines } from '../listed-lines.ts';
import { wrapped } from '../output.ts';
import { short } from '../short-number.ts';

/** Width of the table in characters, and of its column of names. */
const NAME_COLUMNS = 42;
/** An endpoint rarely has more characters. */
const MOST_ENDPOINT_COLUMNS = 28;

const HEADS = ['active', 'inactive', 'conn/s', 'pkt/s in', 'out', 'B/s in', 'out'];

/** Returns the table, and the endpoints that do not answer. */
export function topLines(reply: TopReply): string[] {
  return [...tableLines(reply), ...silentLines(reply.silent)];
}

/** Returns the table within 100 columns. Names that are too long are cut; the JSON form has them whole. */
export function tableLines({ verdict, by, rows, more }: Pick<TopReply, 'verdict' | 'by' | 'rows' | 'more'>): string[] {
  const endpointColumns = Math.min(
    MOST_ENDPOINT_COLUMNS,
    rows.reduce((most, { endpoint = '' }) => Math.max(most, endpoint.length), 'endpoint'.length),
  );
  const ofColumns = by === 'service' ? NAME_COLUMNS : NAME_COLUMNS - endpointColumns - 2;
  const line = (of: string, endpoint: string, cells: readonly string[]): string => {
    const names = [cutEnd(of, ofColumns).padEnd(ofColumns)];
    if (by === 'endpoint') names.push(cutBegin(endpoint, endpointColumns).padEnd(endpointColumns));
    return [...names, ...cells.map((cell, at) => cell.padStart(HEADS[at]?.length ?? 0).padStart(5))].join('  ');
  };
  return [
    ...wrapped(verdict),
    '',
    line('service', 'endpoint', HEADS),
    ...rows.map((row) => line(row.of, row.endpoint ?? '', cellsOf(row))),
    ...(more === 0 ? [] : ['', `and ${more} more with fewer connections`]),
  ];
}

function cellsOf({ activeConnections, inactiveConnections, perSecond }: TopRow): string[] {
  const now = [activeConnections, inactiveConnections].map(short);
  if (perSecond === undefined) return [...now, ...HEADS.slice(now.length).map(() => '-')];
  return [...now, ...COUNTERS.map((counter) => short(perSecond[counter]))];
}

function cutEnd(text: string, columns: number): string {
  return text.length <= columns ? text : `${text.slice(0, columns - 1)}…`;
}

/** Shortens from the left: the port at the end of an address is the most useful part. */
function cutBegin(text: string, columns: number): string {
  return text.length <= columns ? text : `…${text.slice(1 - columns)}`;
}
