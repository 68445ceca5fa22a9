import type { AddressKind } from '../state/address-traits.ts';

/** If several Services claim the same virtual server, the kind of address with the lowest rank wins. */
export const CLAIM_RANK: Readonly<Record<AddressKind, number>> = {
  cluster: 0,
  nodePort: 1,
  loadBalancer: 2,
  external: 3,
};
