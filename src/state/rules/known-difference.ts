/**
 * Differences that are expected beside kube-proxy, by the short names that --dry-run reports.
 * docs/differences.md explains each.
 */
export const KNOWN_DIFFERENCES = [
  'rule-text',
  'additional-rules',
  'empty-set',
  'node-port-addresses',
  'closed-addresses',
  'loop-back',
  'ipv6-lifetime',
  'scheduler-flags',
  'node-port-on-loopback',
  'other-table',
] as const;

export type KnownDifference = (typeof KNOWN_DIFFERENCES)[number];
