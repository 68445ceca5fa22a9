import { OUR_MODES } from '../settings.ts';
import { compareText, listsToJson } from '../list-file.ts';
import type { SpecResult } from './junit.ts';

/** The service proxies that are compared, in the order of the page's columns. */
export const E2E_PROXIES = [
  'ours',
  'kube-proxy-ipvs',
  'ours-iptables',
  'kube-proxy-iptables',
  'ours-nftables',
  'kube-proxy-nftables',
] as const;
export type E2eProxy = (typeof E2E_PROXIES)[number];

/** Whether it is kube-ipvs-proxy, in one of its modes. */
export function isOurs(proxy: E2eProxy): boolean {
  return proxy in OUR_MODES;
}

/** One run of the suite against one cluster. */
export interface Run {
  /** When it began, in UTC: 2026-11-22T17:40:00Z. It identifies the run. */
  readonly start: string;
  readonly proxy: E2eProxy;
  /** Version of the proxy; of ours with the commit. */
  readonly version: string;
  readonly kubernetes: string;
  readonly families: string;
  readonly nodes: number;
  /** Version of the nodes' kernel. */
  readonly kernel: string;
  /** Duration, and how many specs ran at a time. */
  readonly seconds: number;
  readonly procs: number;
}

/** The result of one spec, with the run that it is from. */
export interface KeptResult extends SpecResult {
  readonly run: string;
  /** The number of runs in a row that it passed up to this one, of those in clusters of the same kind; absent for one. */
  readonly passesInARow?: number;
}

/** lab/results/e2e.json: the last result of each spec with each proxy. */
export interface Kept {
  readonly runs: readonly Run[];
  readonly results: readonly KeptResult[];
}

/**
 * Adds a run. It replaces the results of the same specs in clusters of the same kind (proxy, Kubernetes version, IP
 * families) and no others. Runs of which no result is left are dropped.
 */
export function addRun(kept: Kept, run: Run, results: readonly SpecResult[]): Kept {
  const runs = new Map([...kept.runs, run].map((each) => [each.start, each]));
  const ofColumn = (result: KeptResult): boolean => {
    const origin = runs.get(result.run);
    return origin !== undefined && columnKey(origin) === columnKey(run);
  };
  const last = new Map(kept.results.filter(ofColumn).map((result) => [result.spec, result]));
  const added = results.map((result) => keptResult(result, run, last.get(result.spec)));
  const replaced = new Set(results.map(({ spec }) => spec));
  const after = [...kept.results.filter((result) => !(replaced.has(result.spec) && ofColumn(result))), ...added];
  const used = new Set(after.map((result) => result.run));
  return {
    runs: [...runs.values()].filter(({ start }) => used.has(start)).toSorted((a, b) => compareText(a.start, b.start)),
    results: after.toSorted((a, b) => compareText(a.spec, b.spec) || compareText(a.run, b.run)),
  };
}

function keptResult(result: SpecResult, { start }: Run, last: KeptResult | undefined): KeptResult {
  const again = result.outcome === 'passed' && last?.outcome === 'passed';
  return { ...result, run: start, ...(again && { passesInARow: (last.passesInARow ?? 1) + 1 }) };
}

/** Runs with the same key are in the same column of the same table. */
export function columnKey({ proxy, kubernetes, families }: Run): string {
  return `${kubernetes} ${families} ${proxy}`;
}

export function toJson({ runs, results }: Kept): string {
  return listsToJson({ runs, results });
}
