import { formatCidr } from '../base/cidr.ts';
import type { AddressKind } from '../state/address-traits.ts';
import type { VirtualServer } from '../state/virtual-server.ts';
import type { AddressUse } from './replies.ts';

/** What the API calls the kinds of addresses. */
export const USES: Readonly<Record<AddressKind, AddressUse>> = {
  cluster: 'ClusterIP',
  nodePort: 'NodePort',
  loadBalancer: 'LoadBalancerIP',
  external: 'ExternalIP',
};

/** Says what a virtual server is, in the modes that translate addresses. */
export function settingsText({ timeout, traits }: VirtualServer): string {
  const ranges = traits?.admitted?.ranges.map(formatCidr).join(', ');
  return [
    `session affinity ${timeout} s`,
    ...(traits === undefined ? [] : [USES[traits.kind], traits.keepsSource ? 'source kept' : 'masqueraded']),
    ...(ranges === undefined ? [] : [`open to ${ranges === '' ? 'nobody' : ranges}`]),
  ].join(', ');
}
