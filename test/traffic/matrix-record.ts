import { readFileSync, writeFileSync } from 'node:fs';
import type { ProxyMode } from '../../src/base/proxy-mode.ts';
import { CASES, type Cell, type Source, cellsOf } from './matrix-table.ts';

const FILE = new URL('../../lab/results/traffic-matrix.json', import.meta.url);

export const PROXIES = ['ours', 'kube-proxy'] as const;
export type MatrixProxy = (typeof PROXIES)[number];

export const ALL_CELLS: readonly Cell[] = CASES.flatMap(cellsOf);

/** One run of the matrix, as lab/results/traffic-matrix.json keeps it. */
export interface MatrixRun {
  readonly proxy: MatrixProxy;
  readonly mode: ProxyMode;
  /** With a local route in place of an address for each service; only ClusterIPs were tried. */
  readonly light: boolean;
  /** Of the proxy: "0.2.0 at 0711086", "1.37.2". */
  readonly version: string;
  /** As `uname -r` says it. */
  readonly kernel: string;
  readonly connections: number;
  /** By the title of the case and by the source: what was seen at each destination of the case, in a line as in its table. */
  readonly cells: Readonly<Record<string, Readonly<Partial<Record<Source, string>>>>>;
}

/** What was seen through one cell, by "TCP IPv4" and so on. */
export interface Seen {
  readonly cell: Cell;
  readonly texts: ReadonlyMap<string, string>;
}

/** "A+B kept", or with the protocols and families that show something else: "A+B kept; TCP IPv6, UDP IPv6: refused". */
export function cellText(texts: ReadonlyMap<string, string>): string {
  const kinds = new Map<string, string[]>();
  for (const [kind, text] of texts) kinds.set(text, [...(kinds.get(text) ?? []), kind]);
  const [usual, ...others] = [...kinds].sort(([, a], [, b]) => b.length - a.length);
  return [usual?.[0] ?? '', ...others.map(([text, of]) => `${of.join(', ')}: ${text}`)].join('; ');
}

export function cellsOfRun(seen: readonly Seen[]): MatrixRun['cells'] {
  const cells: Record<string, Partial<Record<Source, string>>> = {};
  for (const { cell, texts } of seen) {
    const bySource = (cells[cell.case.title] ??= {});
    const before = bySource[cell.source];
    bySource[cell.source] = `${before === undefined ? '' : `${before} | `}${cellText(texts)}`;
  }
  return cells;
}

/** What a run saw through each cell that it tried; the cells are those of ALL_CELLS. */
export function textsOf({ cells }: MatrixRun): ReadonlyMap<Cell, string> {
  const texts = new Map<Cell, string>();
  const columns = new Map<string, number>();
  for (const cell of ALL_CELLS) {
    const row = `${cell.case.title}, ${cell.source}`;
    const column = columns.get(row) ?? 0;
    columns.set(row, column + 1);
    const text = cells[cell.case.title]?.[cell.source]?.split(' | ')[column];
    if (text !== undefined) texts.set(cell, text);
  }
  return texts;
}

export function recordedRuns(): readonly MatrixRun[] {
  return JSON.parse(readFileSync(FILE, 'utf8')) as MatrixRun[];
}

export type RunId = Pick<MatrixRun, 'proxy' | 'mode' | 'light'>;

export function runOf(runs: readonly MatrixRun[], id: RunId): MatrixRun | undefined {
  return runs.find((run) => nameOf(run) === nameOf(id));
}

/** Keeps a run in place of the one before. */
export function record(run: MatrixRun): void {
  const others = recordedRuns().filter((each) => nameOf(each) !== nameOf(run));
  const runs = [...others, run].toSorted((a, b) => nameOf(a).localeCompare(nameOf(b)));
  writeFileSync(FILE, `${JSON.stringify(runs, null, 2)}\n`);
}

export function nameOf({ proxy, mode, light }: RunId): string {
  return `${proxy} in ${mode} mode${light ? ', light' : ''}`;
}
