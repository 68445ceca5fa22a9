import type { Node } from '../kube/objects.ts';
import { type Cidr, compareCidr, parseCidr } from '../net/cidr.ts';
import { type IpAddress, familyOf, isUnspecified, parseIp } from '../net/ip.ts';

const ZONE_LABEL = 'topology.kubernetes.io/zone';
const AUTOSCALER_TAINT = 'ToBeDeletedByClusterAutoscaler';

/** What matters of a Node object. */
export interface NodeModel {
  readonly name: string;
  /** "" when it has none. */
  readonly zone: string;
  /** InternalIPs, then ExternalIPs, each in the object's order; no duplicates. The first one is the primary address. */
  readonly reportedAddresses: readonly IpAddress[];
  /** Load balancers may send traffic here: the node is not about to go. */
  readonly eligible: boolean;
  readonly podCidrs: readonly Cidr[];
}

export function defineNode(node: Node): NodeModel {
  const ofType = (type: string): IpAddress[] =>
    node.addresses.flatMap((entry) => (entry.type === type ? (parseIp(entry.address) ?? []) : []));
  return {
    name: node.meta.name,
    zone: node.meta.labels[ZONE_LABEL] ?? '',
    reportedAddresses: [...new Set([...ofType('InternalIP'), ...ofType('ExternalIP')])],
    eligible: node.meta.deletionTimestamp === undefined && !node.taints.some(({ key }) => key === AUTOSCALER_TAINT),
    podCidrs: node.podCIDRs.flatMap((text) => parseCidr(text) ?? []).sort(compareCidr),
  };
}

/**
 * The node's own address of each family, primary family first: those that the Node object reports, with a bind address (unless it
 * is unspecified) in place of its family's and first. Empty when nothing is known: the caller then falls back to loopback.
 */
export function nodeIps(reported: readonly IpAddress[], bindAddress?: IpAddress): readonly IpAddress[] {
  const bound = bindAddress === undefined || isUnspecified(bindAddress) ? [] : [bindAddress];
  const found: IpAddress[] = [];
  for (const address of [...bound, ...reported]) {
    if (!found.some((other) => familyOf(other) === familyOf(address))) found.push(address);
  }
  return found;
}
