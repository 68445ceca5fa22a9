import type { AddressKind } from '../state/address-traits.ts';
import type { AddressUse } from './replies.ts';

/** What the API calls the kinds of addresses. */
export const USES: Readonly<Record<AddressKind, AddressUse>> = {
  cluster: 'ClusterIP',
  nodePort: 'NodePort',
  loadBalancer: 'LoadBalancerIP',
  external: 'ExternalIP',
};
