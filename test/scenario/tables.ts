import { NODE_ADDRESSES } from './scenario-state.ts';
import type { Table } from './scenario-file.ts';

/** What is in force, in the words of scenario files; each table sorted. */
export type Tables = Readonly<Record<Table, readonly string[]>>;

/** Lines of a set, by its name: only sets that a scenario names are compared. */
export const setLine = (name: string, entries: readonly string[]): string =>
  `${name}: ${entries.length === 0 ? 'none' : [...entries].sort().join(', ')}`;

export interface ListedServer {
  readonly at: string;
  readonly weight: number;
  /** The numbers of connections at which it is full, and no longer full: "100/80". */
  readonly limit?: string;
}

/**
 * A virtual server: protocol, address and port; scheduler; persistence; real servers, with their weight where it is
 * not 1.
 */
export function virtualServerLine(
  id: string,
  scheduler: string,
  options: readonly string[],
  realServers: readonly ListedServer[],
): string {
  const servers = realServers
    .map(({ at, weight, limit = '' }) => [
      at,
      ...(weight === 1 ? [] : [`(weight ${weight})`]),
      ...(limit === '' ? [] : [`(limit ${limit})`]),
    ])
    .map((words) => words.join(' '))
    .sort();
  return [id, scheduler, ...options, '->', servers.length === 0 ? 'none' : servers.join(', ')].join(' ');
}

/** `node4:30080` and `node6:30080` mean one line for each address of the node. */
export function expanded(lines: readonly string[]): string[] {
  return lines
    .flatMap((line) => {
      const shorthand = / node([46]):/.exec(line);
      if (shorthand === null) return [line];
      const six = shorthand[1] === '6';
      return NODE_ADDRESSES[six ? 6 : 4].map((address) =>
        line.replace(/ node[46]:/, six ? ` [${address}]:` : ` ${address}:`),
      );
    })
    .sort();
}

/** The difference of a wanted table and what there is, side by side; undefined when there is none. */
export function difference(table: Table, want: readonly string[], tables: Partial<Tables>): string | undefined {
  const wanted =
    table === 'virtual servers' ? expanded(want).map(sortedServers).sort() : [...want].map(sortedSet).sort();
  const named = new Set(wanted.map((line) => line.split(': ')[0]));
  const there = tables[table] ?? [];
  const got =
    table === 'sets'
      ? [...named].map((name) => there.find((line) => line.startsWith(`${name}: `)) ?? `${name}: none`).sort()
      : // Of the rules a scenario shows a few, each of which must be there.
        there.filter((line) => table !== 'rules' || want.includes(line)).sort();
  if (wanted.length === got.length && wanted.every((line, i) => line === got[i])) return undefined;
  return [`${table}:`, ...sideBySide(wanted, got)].join('\n    ');
}

// Entries may be written in any order.
function sortedSet(line: string): string {
  const [name = '', entries] = line.split(': ');
  return entries === undefined || !name.startsWith('KUBE-')
    ? line
    : `${name}: ${entries.split(', ').sort().join(', ')}`;
}

function sortedServers(line: string): string {
  const [id = '', servers = ''] = line.split(' -> ');
  return `${id} -> ${servers.split(', ').sort().join(', ')}`;
}

function sideBySide(want: readonly string[], got: readonly string[]): string[] {
  const rows: string[] = [];
  for (const line of [...new Set([...want, ...got])].sort()) {
    const mark = want.includes(line) ? (got.includes(line) ? '        ' : 'missing ') : 'surplus ';
    rows.push(mark + line);
  }
  return rows;
}
