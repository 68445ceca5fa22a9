import type { E2eProxy } from '../e2e/results.ts';
import type { Servers } from './servers.ts';
import type { TrialContext } from './context.ts';

/** The most that may happen for the trial to hold. What an allowance covers is not counted. */
export interface Limits {
  /** New connections that were not served. */
  readonly failed: number;
  /** Long connections that broke. */
  readonly cut: number;
}

/** Something that is done to a cluster while traffic goes on. */
export interface Trial {
  /** TRIAL=name. */
  readonly name: string;
  /** What is done, for the page: one phrase. */
  readonly what: string;
  /** The service proxies that it can be run with. */
  readonly proxies: readonly E2eProxy[];
  /** What the result is about, if not the service proxy that the cluster runs at first: ours, with these manifests. */
  readonly about?: { readonly proxy: 'ours'; readonly overlay: 'privileged' | 'restricted' | 'shadow' };
  /** `as kube-proxy`: not more than kube-proxy's ipvs mode had in the same trial, as lab/results/trials.json has it. */
  readonly limits: Limits | 'as kube-proxy';
  /** Settings of `make cluster` that it needs, such as `NODES=3`. */
  readonly settings?: readonly string[];
  /** Programs that it needs beside those of the cluster; they are built before the traffic starts. */
  readonly programs?: readonly string[];
  /** How its servers differ from the usual ones. */
  readonly servers?: Partial<Servers>;
  /** Runs between a time of clean traffic and another time of traffic. */
  run(context: TrialContext): Promise<void>;
}
