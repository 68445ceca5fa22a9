import { formatCidr } from '../base/cidr.ts';
import type { AddressKind } from '../state/address-traits.ts';
import type { VirtualServer } from '../state/virtual-server.ts';
import type { AddressUse } from './replies.ts';

/** The API's names for the kinds of addresses. */
export const ADDRESS_KIND_NAMES: Readonly<Record<AddressKind, AddressUse>> = {
  cluster: 'ClusterIP',
  nodePort: 'NodePort',
  loadBalancer: 'LoadBalancerIP',
  external: 'ExternalIP',
};

/** Describes a virtual server in nftables or iptables mode: session affinity, kind of address, admitted clients. */
export function settingsText({ timeout, traits }: VirtualServer): string {
  const ranges = traits?.admitted?.ranges.map(formatCidr).join(', ');
  return [
    `session affinity ${timeout} s`,
    ...(traits === undefined
      ? []
      : [ADDRESS_KIND_NAMES[traits.kind], traits.keepsSource ? 'source kept' : 'masqueraded']),
    ...(ranges === undefined ? [] : [`open to ${ranges === '' ? 'nobody' : ranges}`]),
  ].join(', ');
}
