import type { CaseConfig, NodeObject } from './case.ts';
import type { Random } from './random.ts';

export const OUR_NODE = 'node-0';

/** The addresses that our node reports. */
export const NODE_IPS = ['192.0.2.10', '2001:db8:9::10'] as const;

export function makeNode(random: Random): NodeObject {
  const addresses = random.pick([NODE_IPS, NODE_IPS.toReversed(), [NODE_IPS[0]], [NODE_IPS[1]]]);
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name: OUR_NODE,
      labels: random.percent(85) ? { 'topology.kubernetes.io/zone': random.pick(['zone-a', 'zone-b']) } : {},
    },
    spec: { podCIDRs: ['10.244.0.0/24', 'fd00:244::/64'] },
    status: { addresses: addresses.map((address) => ({ type: 'InternalIP', address })) },
  };
}

export function makeInterfaces(random: Random): Record<string, readonly string[]> {
  return {
    lo: ['127.0.0.1/8', '::1/128'],
    eth0: ['192.0.2.10/24', '2001:db8:9::10/64', 'fe80::1/64'],
    cni0: ['10.244.0.1/24', 'fd00:244::1/64'],
    ...(random.percent(40) ? { eth1: ['198.51.100.7/24', '2001:db8:a::7/64'] } : {}),
  };
}

export function makeConfig(random: Random): CaseConfig {
  return {
    scheduler: random.pick(['rr', 'rr', 'wrr', 'lc', 'sh', 'mh', '']),
    masqueradeAll: random.percent(20),
    detectLocalMode: random.pick(['ClusterCIDR', 'NodeCIDR', '', 'BridgeInterface', 'InterfaceNamePrefix']),
    clusterCIDRs: random.pick([['10.244.0.0/16', 'fd00:244::/48'], ['10.244.0.0/16'], []]),
    nodePortAddresses: random.percent(50) ? [] : random.pick(NODE_PORT_ADDRESSES),
    bindAddress: random.percent(10) ? random.pick(['192.0.2.11', '2001:db8:9::11', '0.0.0.0']) : '',
    featureGates: random.percent(8) ? { AllowServiceExternalIPs: random.percent(20) } : {},
  };
}

const NODE_PORT_ADDRESSES: readonly (readonly string[])[] = [
  ['primary'],
  ['all'],
  ['localhost'],
  ['primary', 'localhost'],
  ['primary', '198.51.100.0/24'],
  ['192.0.2.0/24'],
  ['192.0.2.0/24', '2001:db8:9::/64'],
  ['198.51.100.0/24', '::/0'],
  ['127.0.0.0/8'],
  ['10.99.0.0/16'],
];
