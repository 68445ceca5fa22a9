/**
 * The addresses of a test bed: the same for every bed, because each has a separate network.
 *
 * | what | IPv4 | IPv6 |
 * |---|---|---|
 * | node network: nodes .10+n, clients .100+n | 10.200.0.0/24 | fd00:200::/64 |
 * | pods of node n, gateway .1, pods .10+n | 10.201.n.0/24 | fd00:201:0:n::/64 |
 * | cluster IPs | 10.202.0.0/16 | fd00:202::/64 |
 * | external and load balancer IPs | 10.203.0.0/16 | fd00:203::/64 |
 */
export interface DualStack {
  readonly v4: string;
  readonly v6: string;
}

export const nodeNetwork: DualStack = { v4: '10.200.0.0/24', v6: 'fd00:200::/64' };
export const allPods: DualStack = { v4: '10.201.0.0/16', v6: 'fd00:201::/48' };
export const clusterAddresses: DualStack = { v4: '10.202.0.0/16', v6: 'fd00:202::/64' };
export const externalAddresses: DualStack = { v4: '10.203.0.0/16', v6: 'fd00:203::/64' };

/** The switch of the node network: every node's default gateway, though it forwards nothing. */
export const lanAddress: DualStack = { v4: '10.200.0.1', v6: 'fd00:200::1' };

export function nodeAddress(node: number): DualStack {
  return { v4: `10.200.0.${10 + checked(node, 80)}`, v6: `fd00:200::${10 + node}` };
}

export function clientAddress(client: number): DualStack {
  return { v4: `10.200.0.${100 + checked(client, 100)}`, v6: `fd00:200::${100 + client}` };
}

export function podNetwork(node: number): DualStack {
  return { v4: `10.201.${checked(node, 80)}.0/24`, v6: `fd00:201:0:${node}::/64` };
}

export function podGateway(node: number): DualStack {
  return { v4: `10.201.${checked(node, 80)}.1`, v6: `fd00:201:0:${node}::1` };
}

export function podAddress(node: number, pod: number): DualStack {
  return { v4: `10.201.${checked(node, 80)}.${10 + checked(pod, 240)}`, v6: `fd00:201:0:${node}::${10 + pod}` };
}

/** The n-th cluster IP of the bed's range; 0 is never used by the bed itself. */
export function clusterAddress(service: number): DualStack {
  return { v4: `10.202.0.${checked(service, 255)}`, v6: `fd00:202::${service}` };
}

/** The n-th external or load balancer IP of the bed's range. */
export function externalAddress(service: number): DualStack {
  return { v4: `10.203.0.${checked(service, 255)}`, v6: `fd00:203::${service}` };
}

function checked(index: number, limit: number): number {
  if (!Number.isInteger(index) || index < 0 || index >= limit) {
    throw new RangeError(`index ${index} is not in 0..${limit - 1}`);
  }
  return index;
}
