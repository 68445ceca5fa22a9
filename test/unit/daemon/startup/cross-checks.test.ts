import { describe, expect, test } from '@jest/globals';
import { parseBindAddress } from '../../../../src/config/value/bind-address.ts';
import type { ProxyConfig } from '../../../../src/config/proxy-config.ts';
import { crossChecks } from '../../../../src/daemon/startup/cross-checks.ts';
import { configOf } from '../../../support/config.ts';
import type { NodeModel } from '../../../../src/model/node.ts';
import { type Cidr, parseCidr } from '../../../../src/base/cidr.ts';
import { type IpAddress, type IpFamily, parseIp } from '../../../../src/base/ip.ts';

function cidrs(...texts: readonly string[]): readonly Cidr[] {
  return texts.map((text) => parseCidr(text)!);
}

function ips(...texts: readonly string[]): readonly IpAddress[] {
  return texts.map((text) => parseIp(text)!);
}

const QUIET: ProxyConfig = {
  ...configOf(),
  clusterCidrs: cidrs('10.244.0.0/16', 'fd00:244::/56'),
  detectLocalMode: 'ClusterCIDR',
  excludeCidrs: [],
  healthzBind: parseBindAddress('0.0.0.0:10256'),
  localRouteCidrs: [],
  metricsBind: parseBindAddress('127.0.0.1:10249'),
  nodeIpOverride: undefined,
  nodePortAddresses: { primary: true, cidrs: [] },
};

const NODE: NodeModel = {
  name: 'node-a',
  zone: '',
  reportedAddresses: ips('192.0.2.1', '2001:db8::1'),
  podCidrs: cidrs('10.244.1.0/24', 'fd00:244:0:1::/64'),
};
const NODE6: NodeModel = { ...NODE, reportedAddresses: ips('2001:db8::1', '192.0.2.1') };

type Row = readonly [
  what: string,
  config: Partial<ProxyConfig>,
  families: readonly IpFamily[],
  node: NodeModel | undefined,
  found: { readonly warnings?: readonly RegExp[]; readonly fatal?: readonly RegExp[] },
];

const ROWS: readonly Row[] = [
  ['all is well', {}, [4, 6], NODE, {}],
  ['nothing is known of the node', {}, [4, 6], undefined, {}],
  [
    'node ports open everywhere',
    { nodePortAddresses: { primary: false, cidrs: [] } },
    [4, 6],
    NODE,
    { warnings: [/not set.*"primary"/] },
  ],
  [
    'node ports limited in one family only',
    { nodePortAddresses: { primary: false, cidrs: cidrs('192.0.2.0/24') } },
    [4, 6],
    NODE,
    { warnings: [/has no IPv6 entry: node ports are open on every IPv6 address/] },
  ],
  [
    'node ports limited in the only family',
    { nodePortAddresses: { primary: false, cidrs: cidrs('192.0.2.0/24') } },
    [4],
    NODE,
    {},
  ],
  [
    'node ports limited in both',
    { nodePortAddresses: { primary: false, cidrs: cidrs('192.0.2.0/24', '2001:db8::/64') } },
    [4, 6],
    NODE,
    {},
  ],
  [
    "node ports at the Node's own addresses, and in a network of one family",
    { nodePortAddresses: { primary: true, cidrs: cidrs('192.0.2.0/24') } },
    [4, 6],
    NODE,
    {},
  ],
  [
    'node ports on loopback',
    { nodePortAddresses: { primary: true, cidrs: cidrs('127.0.0.0/8', '::1/128') } },
    [4, 6],
    NODE,
    {},
  ],
  [
    'cluster CIDR of the other family, single stack',
    { clusterCidrs: cidrs('fd00::/56') },
    [4],
    NODE,
    { fatal: [/IPv4-only, but --cluster-cidr \(clusterCIDR\) has only IPv6/] },
  ],
  [
    'the same, but it is not what local traffic is told by',
    { clusterCidrs: cidrs('fd00::/56'), detectLocalMode: 'BridgeInterface' },
    [4],
    NODE,
    { warnings: [/IPv4-only, but --cluster-cidr/] },
  ],
  [
    'the same in dual stack',
    { clusterCidrs: cidrs('10.244.0.0/16') },
    [6, 4],
    NODE6,
    { warnings: [/IPv6-primary, but --cluster-cidr \(clusterCIDR\) has only IPv4/] },
  ],
  ['cluster CIDR of the primary family only', { clusterCidrs: cidrs('10.244.0.0/16') }, [4, 6], NODE, {}],
  [
    'pod CIDRs of the other family',
    { detectLocalMode: 'NodeCIDR' },
    [4, 6],
    { ...NODE, podCidrs: cidrs('fd00::/64') },
    { fatal: [/IPv4-primary, but spec\.podCIDRs of our Node has only IPv6/] },
  ],
  [
    'the same where they do not matter',
    {},
    [4, 6],
    { ...NODE, podCidrs: cidrs('fd00::/64') },
    { warnings: [/spec\.podCIDRs/] },
  ],
  ['excludeCIDRs of the other family', { excludeCidrs: cidrs('fd00::/8') }, [4], NODE, { warnings: [/excludeCIDRs/] }],
  ['excludeCIDRs of both', { excludeCidrs: cidrs('fd00::/8', '10.0.0.0/8') }, [4], NODE, {}],
  [
    'servers on an address of the other family',
    { healthzBind: parseBindAddress('[2001:db8::1]:10256'), metricsBind: parseBindAddress('[::1]:10249') },
    [4],
    NODE,
    { warnings: [/healthzBindAddress\) is \[2001:db8::1\]:10256/, /metricsBindAddress\) is \[::1\]:10249/] },
  ],
  ['a server on loopback of the other family', { metricsBind: parseBindAddress('[::1]:10249') }, [4, 6], NODE, {}],
  [
    'the health server on loopback',
    { healthzBind: parseBindAddress('127.0.0.1:10256') },
    [4, 6],
    NODE,
    { warnings: [/^--healthz-bind-address \(healthzBindAddress\) is 127\.0\.0\.1:10256: load balancers/] },
  ],
  ['servers on the wildcard of the other family', { healthzBind: parseBindAddress('[::]:10256') }, [4, 6], NODE, {}],
  ['local routes beside nodes and pods', { localRouteCidrs: cidrs('10.96.0.0/12', 'fd00:96::/112') }, [4, 6], NODE, {}],
  [
    'a local route over pods',
    { localRouteCidrs: cidrs('10.244.7.0/24', 'fd00:200::/48') },
    [4, 6],
    NODE,
    { fatal: [/^--ipvs-local-route-cidrs: 10\.244\.7\.0\/24 overlaps 10\.244\.0\.0\/16, where pods are$/] },
  ],
  [
    'a local route over this node',
    { localRouteCidrs: cidrs('10.0.0.0/24') },
    [4, 6],
    { ...NODE, reportedAddresses: ips('10.0.0.1') },
    { fatal: [/10\.0\.0\.0\/24 holds 10\.0\.0\.1, an address of this node$/] },
  ],
  ['no servers', { healthzBind: undefined, metricsBind: undefined }, [4, 6], NODE, {}],
  [
    'the primary family cannot be served',
    { clusterCidrs: [], metricsBind: undefined },
    [4],
    NODE6,
    { fatal: [/own address is IPv6, which this host cannot serve: it needs IPv6 and ip6tables/] },
  ],
  ['--bind-address decides which family is primary', { nodeIpOverride: ips('10.0.0.1')[0] }, [4], NODE6, {}],
];

describe('crossChecks', () => {
  test.each(ROWS)('%s', (_what, config, families, node, { warnings = [], fatal = [] }) => {
    expect(crossChecks({ ...QUIET, ...config }, families, node)).toEqual({
      warnings: warnings.map((text) => expect.stringMatching(text)),
      fatal: fatal.map((text) => expect.stringMatching(text)),
    });
  });
});
