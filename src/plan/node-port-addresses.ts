import { cidrContains, cidrFamily } from '../base/cidr.ts';
import {
  type IpAddress,
  type IpFamily,
  compareIp,
  familyOf,
  isLinkLocal6,
  isLoopback,
  isUnspecified,
} from '../base/ip.ts';
import type { NodeView, PlanConfig } from './plan-config.ts';

/**
 * Returns the interface addresses that serve node ports: those in the nodePortAddresses CIDRs, or all if no CIDR is of
 * this family. Loopback addresses are excluded: IPVS cannot serve them, so clients would hang.
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
