import type { ProxyConfig } from '../../config/proxy-config.ts';
import { type NodeModel, nodeIps } from '../../model/node.ts';
import { type Cidr, cidrContains, cidrFamily, cidrsOverlap, formatCidr } from '../../base/cidr.ts';
import {
  type IpFamily,
  familyLabel,
  familyOf,
  formatHostPort,
  formatIp,
  isLoopback,
  isUnspecified,
} from '../../base/ip.ts';
import type { Log } from '../../observe/log/log.ts';
import { StartupError } from './startup-error.ts';

/**
 * Checks the configuration against the node's own addresses, as kube-proxy does. Returns conflicts: warnings to log,
 * and errors that prevent the start.
 *
 * @param families families usable on this host; @param node undefined if our Node has not been read
 */
export function crossChecks(
  config: ProxyConfig,
  families: readonly IpFamily[],
  node: NodeModel | undefined,
): { readonly warnings: readonly string[]; readonly fatal: readonly string[] } {
  const primary = primaryFamily(config, families, node);
  const other: IpFamily = primary === 4 ? 6 : 4;
  const only = families.length === 1;
  const cluster = `this node is ${familyLabel(primary)}${only ? '-only' : '-primary'}`;
  const warnings = nodePortWarnings(config, families);
  const fatal: string[] = [];

  if (!families.includes(primary)) {
    fatal.push(
      `the node's own address is ${familyLabel(primary)}, which this host cannot serve: it needs ` +
        `${primary === 4 ? 'iptables' : 'IPv6 and ip6tables'}, or another --bind-address`,
    );
  }
  if (allOf(config.clusterCidrs, other)) {
    const text = `${cluster}, but --cluster-cidr (clusterCIDR) has only ${familyLabel(other)}`;
    (only && config.detectLocalMode === 'ClusterCIDR' ? fatal : warnings).push(text);
  }
  if (allOf(node?.podCidrs ?? [], other)) {
    const text = `${cluster}, but spec.podCIDRs of our Node has only ${familyLabel(other)}`;
    (config.detectLocalMode === 'NodeCIDR' ? fatal : warnings).push(text);
  }
  if (allOf(config.excludeCidrs, other)) {
    warnings.push(`${cluster}, but --ipvs-exclude-cidrs (ipvs.excludeCIDRs) has only ${familyLabel(other)}`);
  }
  fatal.push(...localRouteErrors(config, node));
  warnings.push(...bindWarnings(config, cluster, other, families.includes(other)), ...loopbackWarnings(config));
  return { warnings, fatal };
}

/** Logs the warnings. Throws a StartupError if there are fatal conflicts. */
export function checkAgainstNode(
  config: ProxyConfig,
  families: readonly IpFamily[],
  node: NodeModel | undefined,
  log: Log,
): void {
  const { warnings, fatal } = crossChecks(config, families, node);
  for (const warning of warnings) log.warn(warning);
  if (fatal.length > 0) throw new StartupError(fatal.join('; '));
}

/** Returns the family of the node's first address; without an address, the first usable family. */
function primaryFamily(config: ProxyConfig, families: readonly IpFamily[], node: NodeModel | undefined): IpFamily {
  const [first] = nodeIps(node?.reportedAddresses ?? [], config.nodeIpOverride);
  return first === undefined ? (families[0] ?? 4) : familyOf(first);
}

function allOf(cidrs: readonly Cidr[], family: IpFamily): boolean {
  return cidrs.length > 0 && cidrs.every((cidr) => cidrFamily(cidr) === family);
}

/** A local route takes precedence over all other routes: pods and nodes in its CIDR would become unreachable. */
function localRouteErrors({ localRouteCidrs, clusterCidrs }: ProxyConfig, node: NodeModel | undefined): string[] {
  const addresses = node?.reportedAddresses ?? [];
  const pods = [...clusterCidrs, ...(node?.podCidrs ?? [])];
  return localRouteCidrs.flatMap((cidr) => {
    const own = addresses.find((address) => cidrContains(cidr, address));
    const overlapping = pods.find((each) => cidrsOverlap(each, cidr));
    const name = `--ipvs-local-route-cidrs: ${formatCidr(cidr)}`;
    return [
      ...(own === undefined ? [] : [`${name} holds ${formatIp(own)}, an address of this node`]),
      ...(overlapping === undefined ? [] : [`${name} overlaps ${formatCidr(overlapping)}, where pods are`]),
    ];
  });
}

function nodePortWarnings({ nodePortAddresses }: ProxyConfig, families: readonly IpFamily[]): string[] {
  const { primary, cidrs } = nodePortAddresses;
  const name = '--nodeport-addresses (nodePortAddresses)';
  const open = primary ? [] : families.filter((family) => !cidrs.some((cidr) => cidrFamily(cidr) === family));
  if (open.length > 0 && cidrs.length === 0) {
    return [
      `${name} is not set: node ports are open on every address of this node; "primary" would limit them to its own`,
    ];
  }
  return open.map(
    (family) =>
      `${name} has no ${familyLabel(family)} entry: node ports are open on every ${familyLabel(family)} address of ` +
      'this node',
  );
}

/** Warns about loopback addresses: k3s and RKE2 give kube-proxy one, and people copy its configuration. */
function loopbackWarnings({ healthzBind }: ProxyConfig): string[] {
  if (healthzBind === undefined || !isLoopback(healthzBind.address)) return [];
  return [
    `--healthz-bind-address (healthzBindAddress) is ${formatHostPort(healthzBind.address, healthzBind.port)}: load ` +
      "balancers and the kubelet's probes do not reach it; 0.0.0.0 listens on all addresses",
  ];
}

function bindWarnings(
  { healthzBind, metricsBind }: ProxyConfig,
  cluster: string,
  other: IpFamily,
  hasOther: boolean,
): string[] {
  const servers = [
    ['--healthz-bind-address (healthzBindAddress)', healthzBind],
    ['--metrics-bind-address (metricsBindAddress)', metricsBind],
  ] as const;
  return servers.flatMap(([name, where]) => {
    if (where === undefined || familyOf(where.address) !== other) return [];
    // The wildcard address of either family accepts both. Every usable family has a loopback address.
    if (isUnspecified(where.address) || (hasOther && isLoopback(where.address))) return [];
    return [`${cluster}, but ${name} is ${formatHostPort(where.address, where.port)}`];
  });
}
