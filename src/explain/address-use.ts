import { CLAIM_RANK, type ClaimRank } from '../plan/claim-rank.ts';
import type { AddressUse } from './replies.ts';

/** The purpose of a virtual server, by the rank of its claim. */
export const USES: Readonly<Record<ClaimRank, AddressUse>> = {
  [CLAIM_RANK.clusterIp]: 'ClusterIP',
  [CLAIM_RANK.nodePort]: 'NodePort',
  [CLAIM_RANK.loadBalancerIp]: 'LoadBalancerIP',
  [CLAIM_RANK.externalIp]: 'ExternalIP',
};
