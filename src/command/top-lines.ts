import type { TopReply, TopRow } from '../explain/replies.ts';
import { wrapped } from './output.ts';

/** Width of the table in characters, and of its column of names. */
const NAME_COLUMNS = 42;
/** An endpoint rarely has more characters. */
const MOST_ENDPOINT_COLUMNS = 28;

const HEADS = ['active', 'inactive', 'conn/s', 'pkt/s in', 'out', 'B/s in', 'out'];

/** Returns the table within 100 columns. Names that are too long are cut; the JSON form has them whole. */
export function topLines({ verdict, by, rows, more }: Pick<TopReply, 'verdict' | 'by' | 'rows' | 'more'>): string[] {
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
  const { connections, incomingPackets, outgoingPackets, incomingBytes, outgoingBytes } = perSecond;
  return [...now, ...[connections, incomingPackets, outgoingPackets, incomingBytes, outgoingBytes].map(short)];
}

const UNITS = ['', 'k', 'M', 'G', 'T', 'P'];

/** Returns the number in at most five characters: 0.3, 12, 1.2k, 340k, 5.6M. */
export function short(value: number): string {
  if (value > 0 && value < 9.95) return value.toFixed(1).replace('.0', '');
  let scaled = value;
  let unit = 0;
  while (Math.round(scaled) >= 1000 && unit < UNITS.length - 1) {
    scaled /= 1000;
    unit += 1;
  }
  return `${scaled.toFixed(unit > 0 && scaled < 9.95 ? 1 : 0)}${UNITS[unit]}`;
}

function cutEnd(text: string, columns: number): string {
  return text.length <= columns ? text : `${text.slice(0, columns - 1)}…`;
}

/** Shortens from the left: the port at the end of an address is the most useful part. */
function cutBegin(text: string, columns: number): string {
  return text.length <= columns ? text : `…${text.slice(1 - columns)}`;
}
