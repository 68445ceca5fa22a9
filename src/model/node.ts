import { isDeepStrictEqual } from 'node:util';
import { LABEL } from '../base/well-known-labels.ts';
import type { Node } from '../kube/objects/objects.ts';
import { type Cidr, compareCidr, parseCidr } from '../base/cidr.ts';
import { type IpAddress, familyOf } from '../base/ip.ts';
import { readIp } from '../base/read-ip.ts';

/** The parts of a Node object that this proxy uses. */
export interface NodeModel {
  readonly name: string;
  /** Empty if the Node has no zone label. */
  readonly zone: string;
  /** InternalIPs, then ExternalIPs, in the object's order and without duplicates. */
  readonly reportedAddresses: readonly IpAddress[];
  readonly podCidrs: readonly Cidr[];
}

export function defineNode(node: Node): NodeModel {
  const ofType = (type: string): IpAddress[] =>
    node.addresses.flatMap((entry) => (entry.type === type ? (readIp(entry.address) ?? []) : []));
  return {
    name: node.meta.name,
    zone: node.meta.labels[LABEL.zone] ?? '',
    reportedAddresses: [...new Set([...ofType('InternalIP'), ...ofType('ExternalIP')])],
    podCidrs: node.podCIDRs.flatMap((text) => parseCidr(text) ?? []).sort(compareCidr),
  };
}

/** Whether both nodes lead to the same plans, which use neither the name nor the pod CIDRs (used only at start). */
export function planAlike(a: NodeModel | undefined, b: NodeModel | undefined): boolean {
  return a?.zone === b?.zone && isDeepStrictEqual(a?.reportedAddresses, b?.reportedAddresses);
}

/**
 * Returns at most one node address for each family: the first one that the Node object reports. A bind address comes
 * first and replaces the address of its family.
 */
export function nodeIps(reported: readonly IpAddress[], bindAddress?: IpAddress): readonly IpAddress[] {
  const found: IpAddress[] = bindAddress === undefined ? [] : [bindAddress];
  for (const address of reported) {
    if (!found.some((other) => familyOf(other) === familyOf(address))) found.push(address);
  }
  return found;
}
