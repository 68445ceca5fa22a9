import { type IpFamily, familyLabel, familyOf } from '../base/ip.ts';
import type { ServiceDefinition } from '../model/service-model.ts';
import { nodePortAddresses, primaryAddress } from '../plan/node-port-addresses.ts';
import type { NodeView, PlanConfig } from '../plan/plan-config.ts';

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

function reasonOf(family: IpFamily, node: NodeView, { nodePortAddresses: { primary } }: PlanConfig): string {
  return primary && primaryAddress(family, node) === undefined
    ? 'nodePortAddresses selects the primary one of our Node, which reports none'
    : 'no interface of this node has one that nodePortAddresses selects';
}
