import { cidrContains, cidrFamily } from '../net/cidr.ts';
import {
  type IpAddress,
  type IpFamily,
  compareIp,
  familyOf,
  isLinkLocal6,
  isLoopback,
  isUnspecified,
} from '../net/ip.ts';
import type { NodeView, PlanConfig } from './plan-config.ts';

/**
 * Where node ports are served: the addresses of this node's interfaces that nodePortAddresses selects, all of a family that it
 * does not mention. Never loopback, for IPVS cannot answer there, and a client would hang instead of being refused.
 */
export function nodePortAddresses(
  family: IpFamily,
  { interfaceAddresses }: Pick<NodeView, 'interfaceAddresses'>,
  config: Pick<PlanConfig, 'nodePortAddresses'>,
): readonly IpAddress[] {
  const selected = config.nodePortAddresses.filter((cidr) => cidrFamily(cidr) === family);
  const found = interfaceAddresses.filter(
    (address) =>
      familyOf(address) === family &&
      !isLoopback(address) &&
      !isUnspecified(address) &&
      !isLinkLocal6(address) &&
      (selected.length === 0 || selected.some((cidr) => cidrContains(cidr, address))),
  );
  return [...new Set(found)].sort(compareIp);
}
