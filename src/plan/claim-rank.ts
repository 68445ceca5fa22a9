/** Ranks of claims by purpose. If several services claim the same virtual server, the lowest rank wins. */
export const CLAIM_RANK = { clusterIp: 0, nodePort: 1, loadBalancerIp: 2, externalIp: 3 } as const;
export type ClaimRank = (typeof CLAIM_RANK)[keyof typeof CLAIM_RANK];
