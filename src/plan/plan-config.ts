import type { Cidr } from '../base/cidr.ts';
import type { IpAddress, IpFamily } from '../base/ip.ts';
import type { Port } from '../base/port.ts';

/** How to recognize packets from pods of this node, for one family. */
export type LocalDetector =
  | { readonly kind: 'cidr'; readonly cidr: Cidr }
  | { readonly kind: 'bridge'; readonly interfaceName: string }
  | { readonly kind: 'interface-prefix'; readonly prefix: string };

/** The part of the configuration that plans depend on. */
export interface PlanConfig {
  readonly scheduler: string;
  readonly families: readonly IpFamily[];
  /** Name of our node, lower case. Endpoints on it are local. */
  readonly nodeName: string;
  /** Selects the addresses that serve node ports. A family without a CIDR uses all its addresses. */
  readonly nodePortAddresses: readonly Cidr[];
  readonly masqueradeAll: boolean;
  /** The packet mark that requests masquerading: 1 << masqueradeBit. */
  readonly masqueradeMark: number;
  readonly localDetectors: Readonly<Partial<Record<IpFamily, LocalDetector>>>;
  /** The source port range for masquerading, if it must avoid node ports. */
  readonly masqueradePorts?: { readonly from: Port; readonly to: Port };
  /** Service addresses in these networks are neither bound to kube-ipvs0 nor added to KUBE-IPVS-IPS. */
  readonly unboundCidrs?: readonly Cidr[];
  /** Service addresses in these networks are not bound, because a local route covers them. */
  readonly localRouteCidrs?: readonly Cidr[];
  /** Whether iptables supports --random-fully. */
  readonly randomFully: boolean;
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
