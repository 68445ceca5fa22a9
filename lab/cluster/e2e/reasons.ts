import type { SpecResult } from './junit.ts';
import type { E2eProxy } from './results.ts';

/** Why some specs do not pass. All conditions that are given must hold. */
export interface Reason {
  /** Of the spec's name. */
  readonly spec?: RegExp;
  /** Of the suite's message. */
  readonly message?: RegExp;
  /** Without it, the reason holds with every proxy. */
  readonly proxies?: readonly E2eProxy[];
  /** One clause that completes "does not pass because ...". */
  readonly because: string;
}

export const REASONS: readonly Reason[] = [
  {
    message: /^need at least 3 zones, with at least 2 schedulable nodes each/,
    because: 'the spec needs six nodes in three zones',
  },
  {
    spec: /should be able to handle large requests: udp/,
    proxies: ['ours', 'kube-proxy-ipvs'],
    because: 'IPVS refuses IPv6 datagrams that a bridge has put together from fragments (troubleshooting.md)',
  },
  { message: /^Only supported for providers \[gce\]/, because: "the spec is for clusters in Google's cloud" },
];

/** The first reason that fits a result. */
export function reasonFor(reasons: readonly Reason[], result: SpecResult, proxy: E2eProxy): Reason | undefined {
  return reasons.find(
    ({ spec, message, proxies }) =>
      (spec?.test(result.spec) ?? true) &&
      (message?.test(result.message) ?? true) &&
      (proxies?.includes(proxy) ?? true),
  );
}
