import type { AddressKind } from '../state/address-traits.ts';
import type { AddressUse } from './replies.ts';

/** The API's names for the kinds of addresses. */
export const ADDRESS_KIND_NAMES: Readonly<Record<AddressKind, AddressUse>> = {
  cluster: 'ClusterIP',
  nodePort: 'NodePort',
  loadBalancer: 'LoadBalancerIP',
  external: 'ExternalIP',
};
