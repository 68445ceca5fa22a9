import type { ProxyMode } from '../../src/base/proxy-mode.ts';
import { type MatrixRun, runOf, textsOf } from './matrix-record.ts';
import type { Cell, Destination, ServiceName, Source } from './matrix-table.ts';

/** A cell through which kube-proxy in one mode showed something else than ours in that mode. */
export interface Difference {
  readonly mode: ProxyMode;
  readonly cell: Cell;
  readonly ours: string;
  readonly kubeProxy: string;
}

export function differencesOf(runs: readonly MatrixRun[], mode: ProxyMode): readonly Difference[] {
  const ours = runOf(runs, { proxy: 'ours', mode, light: false });
  const kubeProxy = runOf(runs, { proxy: 'kube-proxy', mode, light: false });
  if (ours === undefined || kubeProxy === undefined) return [];
  const seenWithOurs = textsOf(ours);
  return Array.from(textsOf(kubeProxy), ([cell, text]) => ({
    mode,
    cell,
    ours: seenWithOurs.get(cell) ?? '',
    kubeProxy: text,
  })).filter((one) => one.ours !== one.kubeProxy);
}

/** Why there are differences: one in each mode, for each service, in each combination of sources and destinations. */
export interface Reason {
  readonly modes: readonly ProxyMode[];
  readonly services: readonly ServiceName[];
  readonly ways: readonly (readonly [sources: readonly Source[], destinations: readonly Destination[]])[];
  /** Markdown, for the page. */
  readonly why: string;
  /** The item of docs/differences.md. */
  readonly item: string;
}

export function explains(reason: Reason, { mode, cell }: Difference): boolean {
  return (
    reason.modes.includes(mode) &&
    reason.services.includes(cell.case.service.name) &&
    reason.ways.some(([from, to]) => from.includes(cell.source) && to.includes(cell.destination))
  );
}
