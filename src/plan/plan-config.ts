import { type Cidr, cidrFamily } from '../base/cidr.ts';
import type { IpAddress, IpFamily } from '../base/ip.ts';
import type { NodePortSelection } from '../config/value/node-port-selection.ts';
import type { Protocol } from '../base/protocol.ts';
import type { SetRole } from '../state/set-roles.ts';
import type { LocalDetector, RuleSettings } from '../state/rules/rule-settings.ts';

/** The part of the configuration that plans depend on. */
export interface PlanConfig extends Omit<RuleSettings, 'localDetector'> {
  readonly scheduler: string;
  readonly families: readonly IpFamily[];
  /** Name of our node, lower case. Endpoints on it are local. */
  readonly nodeName: string;
  readonly nodePortAddresses: NodePortSelection;
  /** Whether rules serve node ports at 127.0.0.1, too (default: no). */
  readonly routesLocalnet?: boolean;
  /** Loopback addresses at which the user-space engine serves node ports (default: none). */
  readonly localNodePortAddresses?: readonly IpAddress[];
  readonly localDetectors: Readonly<Partial<Record<IpFamily, LocalDetector>>>;
  /** Whether service addresses must be bound to kube-ipvs0 (default), as IPVS needs it. If not, only cluster IPs are closed. */
  readonly bindAddresses?: boolean;
  /** Whether external IPs are served (default). If not, a Service that has some still counts as reachable from outside. */
  readonly servesExternalIps?: boolean;
  /**
   * The sets that the mode has (default: all of ipvs mode). Where they do not say what the address of a virtual server is to
   * its Service, the virtual server does.
   */
  readonly roles?: readonly SetRole[];
  /** Those that the mode has (default: all). */
  readonly protocols?: readonly Protocol[];
  readonly namesServicePorts?: boolean;
  /** Whether virtual servers of a Service port that have the same real servers share one list of them (default: no). */
  readonly sharesEndpoints?: boolean;
  /** Whether source ranges are planned as the fewest networks, because they can only be read back as intervals (default: no). */
  readonly joinsSourceRanges?: boolean;
  /** Whether silent endpoints are looked for (default: not known). */
  readonly checksEndpoints?: boolean;
  /** Service addresses in these networks are neither bound to kube-ipvs0 nor closed. */
  readonly unboundCidrs?: readonly Cidr[];
  /** Service addresses in these networks are not bound, because a local route covers them. */
  readonly localRouteCidrs?: readonly Cidr[];
}

/** The part of the node's state that plans depend on. */
export interface NodeView {
  /** Value of the label topology.kubernetes.io/zone; empty if the Node does not have it. */
  readonly zone: string;
  /** The primary address of each family (see nodeIps in src/model/node.ts). */
  readonly nodeIps: readonly IpAddress[];
  /** Every InternalIP and ExternalIP in the Node object. */
  readonly reportedAddresses: readonly IpAddress[];
  /** Addresses of all interfaces except kube-ipvs0, including loopback; without tentative and IPv6 link-local ones. */
  readonly interfaceAddresses: readonly IpAddress[];
  /** The schedulers that a Service asked for and that the kernel does not have, each with the reason. */
  readonly missingSchedulers?: ReadonlyMap<string, string>;
}

/** Returns the networks of --ipvs-local-route-cidrs whose IP family is enabled. They do not depend on Services. */
export function planLocalRoutes({ families, localRouteCidrs = [] }: PlanConfig): readonly Cidr[] {
  return localRouteCidrs.filter((cidr) => families.includes(cidrFamily(cidr)));
}
