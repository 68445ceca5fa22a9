import { type IpFamily, familyLabel, familyOf, formatIp } from '../base/ip.ts';
import type { ServiceDefinition } from '../model/service-model.ts';
import { nodePortAddresses, primaryAddress } from '../plan/node-port-addresses.ts';
import type { NodeView, PlanConfig } from '../plan/plan-config.ts';
import type { ServicePlan } from '../plan/service-plan.ts';

/** Says at addresses of which IP families this node does not serve the node ports of a Service, and why. */
export function closedNodePorts(
  { clusterIps, ports }: Pick<ServiceDefinition, 'clusterIps' | 'ports'>,
  node: NodeView,
  config: PlanConfig,
): string[] {
  if (!ports.some(({ nodePort }) => nodePort !== undefined)) return [];
  return config.families
    .filter((family) => clusterIps.some((address) => familyOf(address) === family))
    .filter((family) => nodePortAddresses(family, node, config).length === 0)
    .map(
      (family) => `node ports are not served at ${familyLabel(family)} addresses: ${reasonOf(family, node, config)}`,
    );
}

/** Says at which loopback addresses the node ports of a Service are served. */
export function localNodePorts(plan: Pick<ServicePlan, 'localNodePorts'> | undefined): string[] {
  const addresses = new Set(plan?.localNodePorts?.map(({ address }) => formatIp(address)));
  return addresses.size === 0 ? [] : [`node ports are served at ${[...addresses].join(' and ')} in user space`];
}

function reasonOf(family: IpFamily, node: NodeView, { nodePortAddresses: { primary } }: PlanConfig): string {
  return primary && primaryAddress(family, node) === undefined
    ? 'nodePortAddresses selects the primary one of our Node, which reports none'
    : 'no interface of this node has one that nodePortAddresses selects';
}
