import { type Cidr, cidrContains, cidrFamily, cidrOf } from '../base/cidr.ts';
import {
  type IpAddress,
  type IpFamily,
  compareIp,
  familyOf,
  isIp4,
  isLinkLocal6,
  isLoopback,
  isUnspecified,
  parseIp,
} from '../base/ip.ts';
import type { NodePortSelection } from '../config/value/node-port-selection.ts';
import type { NodeView, PlanConfig } from './plan-config.ts';

type OwnAddresses = Pick<NodeView, 'nodeIps' | 'reportedAddresses'>;
export type NodePortView = OwnAddresses & Pick<NodeView, 'interfaceAddresses'>;
type Selecting = Pick<PlanConfig, 'nodePortAddresses' | 'routesLocalnet'>;

/**
 * Returns the interface addresses that serve node ports. IPVS and nf_tables cannot serve loopback addresses: clients would
 * hang. With route_localnet, which IPv6 does not have, rules of iptables can.
 */
export function nodePortAddresses(family: IpFamily, node: NodePortView, config: Selecting): readonly IpAddress[] {
  const servesLoopback = config.routesLocalnet === true && family === 4;
  return selectedAddresses(family, node, config).filter((address) => servesLoopback || !isLoopback(address));
}

/** Whether nodePortAddresses selects 127.0.0.1, as it does by default. */
export function selectsLocalnet({ primary, cidrs }: NodePortSelection): boolean {
  const ofFamily = cidrs.filter((cidr) => cidrFamily(cidr) === 4);
  return (
    (!primary && ofFamily.length === 0) || LOOPBACK.some((own) => ofFamily.some((cidr) => cidrContains(cidr, own)))
  );
}

const LOOPBACK: readonly IpAddress[] = ['127.0.0.1', '::1'].map(parseIp).filter((address) => address !== undefined);

/**
 * Returns the loopback addresses that nodePortAddresses asks for: by the keyword `localhost` or by a loopback network, not
 * by one that has all addresses.
 */
export function askedLoopback({ cidrs }: Pick<NodePortSelection, 'cidrs'>): readonly IpAddress[] {
  const asked = cidrs.filter(({ address }) => isLoopback(address));
  return LOOPBACK.filter((address) => asked.some((cidr) => cidrContains(cidr, address)));
}

/** Returns the interface addresses that nodePortAddresses selects, sorted. */
export function selectedAddresses(
  family: IpFamily,
  node: NodePortView,
  { nodePortAddresses: selection }: Selecting,
): readonly IpAddress[] {
  const cidrs = selectedCidrs(family, node, selection);
  const found = node.interfaceAddresses.filter(
    (address) =>
      familyOf(address) === family &&
      !isUnspecified(address) &&
      !isLinkLocal6(address) &&
      (cidrs === 'all' || cidrs.some((cidr) => cidrContains(cidr, address))),
  );
  return [...new Set(found)].sort(compareIp);
}

/**
 * Returns the networks of the addresses that are selected. If nothing of this family is listed, all are, as in
 * kube-proxy; but the keyword `primary` selects none while the Node reports no address of the family.
 */
export function selectedCidrs(
  family: IpFamily,
  node: OwnAddresses,
  { primary, cidrs }: NodePortSelection,
): 'all' | readonly Cidr[] {
  const listed = cidrs.filter((cidr) => cidrFamily(cidr) === family);
  if (listed.some(({ prefix }) => prefix === 0) || (!primary && listed.length === 0)) return 'all';
  const own = primary ? primaryAddress(family, node) : undefined;
  return own === undefined ? listed : [...listed, cidrOf(own, isIp4(own) ? 32 : 128)];
}

/** Returns the Node's own address. A --bind-address on loopback, as k3s sets it, does not replace the reported one. */
export function primaryAddress(family: IpFamily, { nodeIps, reportedAddresses }: OwnAddresses): IpAddress | undefined {
  return [...nodeIps, ...reportedAddresses].find((address) => familyOf(address) === family && !isLoopback(address));
}

/** Returns a sentence if node ports are closed because the Node reports no address at all. */
export function nodePortProblem(
  node: OwnAddresses,
  { families, nodePortAddresses: selection }: Pick<PlanConfig, 'families' | 'nodePortAddresses'>,
): string | undefined {
  const isWaiting =
    selection.primary &&
    families.every(
      (family) => primaryAddress(family, node) === undefined && selectedCidrs(family, node, selection) !== 'all',
    );
  return isWaiting
    ? 'our Node reports no address: node ports and health check ports are closed at its primary addresses, which nodePortAddresses selects'
    : undefined;
}
