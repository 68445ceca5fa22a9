import type { Reason } from './matrix-differences.ts';

/** Why kube-proxy shows something else than ours. test/unit/test-bed/matrix.test.ts checks that each difference has one reason. */
export const REASONS: readonly Reason[] = [
  {
    modes: ['ipvs'],
    services: ['external-local', 'external-local-remote', 'both-local-remote'],
    sources: ['node-0', 'node-1'],
    destinations: ['external IP', 'LB VIP'],
    why: `A node's own connection to an external address of a Service with \`externalTrafficPolicy: Local\`: the address is bound
      to \`kube-ipvs0\`, so the kernel takes it as the source, too. kube-proxy leaves it, and an endpoint on another node then
      answers an address that leads elsewhere. Ours masquerades what the node itself sends ([differences.md](differences.md)).`,
  },
];
