import type { E2eProxy } from '../e2e/results.ts';
import { compareText, listsToJson } from '../list-file.ts';
import type { ClusterState } from '../state-file.ts';
import type { Limits } from './trial.ts';

/** What came out of a trial with one kind of cluster. */
export interface TrialResult {
  readonly trial: string;
  readonly what: string;
  readonly proxy: E2eProxy;
  /** Of the proxy; of ours with the commit. */
  readonly version: string;
  /** Which manifests ours was installed by; '' with kube-proxy. */
  readonly overlay: string;
  readonly kubernetes: string;
  readonly families: string;
  readonly nodes: number;
  /** Version of the nodes' kernel. */
  readonly kernel: string;
  /** When it began, in UTC: 2026-11-22T17:40:00Z. */
  readonly start: string;
  readonly seconds: number;
  /** Connections: begun, not served, broken, and those with an answer after more than a second. */
  readonly asked: number;
  readonly failed: number;
  readonly cut: number;
  readonly slow: number;
  /** Failures that had to be expected, by reason. */
  readonly allowed: Readonly<Record<string, number>>;
  /** Other numbers, by what they are. */
  readonly measured: Readonly<Record<string, string>>;
  /** Why the trial does not hold; empty if it does. */
  readonly wrong: readonly string[];
}

/** lab/results/trials.json: the last result of each trial with each kind of cluster. */
export interface KeptTrials {
  readonly trials: readonly TrialResult[];
}

/** Adds a result. It replaces that of the same trial with the same kind of cluster. */
export function addTrial({ trials }: KeptTrials, result: TrialResult): KeptTrials {
  const others = trials.filter((other) => keyOf(other) !== keyOf(result));
  return { trials: [...others, result].toSorted((a, b) => compareText(keyOf(a), keyOf(b))) };
}

/** What kube-proxy's ipvs mode had in a trial; undefined if that has not been measured with the same kind of cluster. */
export function limitsOfKubeProxy(
  { trials }: KeptTrials,
  name: string,
  { kubernetes, families }: Pick<ClusterState, 'kubernetes' | 'families'>,
): Limits | undefined {
  return trials.find(
    (result) =>
      result.trial === name &&
      result.proxy === 'kube-proxy-ipvs' &&
      result.kubernetes === kubernetes &&
      result.families === families.join(', '),
  );
}

function keyOf({ trial, proxy, overlay, kubernetes, families }: TrialResult): string {
  return [trial, kubernetes, families, proxy, overlay].join(' / ');
}

export function trialsToJson({ trials }: KeptTrials): string {
  return listsToJson({ trials });
}
