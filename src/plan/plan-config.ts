import type { Cidr } from '../net/cidr.ts';
import type { IpAddress, IpFamily } from '../net/ip.ts';
import type { Port } from '../net/port.ts';

/** How "this packet comes from a pod of this node" is told, for one family. */
export type LocalDetector =
  | { readonly kind: 'cidr'; readonly cidr: Cidr }
  | { readonly kind: 'bridge'; readonly interfaceName: string }
  | { readonly kind: 'interface-prefix'; readonly prefix: string };

/** Everything of the configuration that decides what a Service demands of the kernel. */
export interface PlanConfig {
  readonly scheduler: string;
  readonly families: readonly IpFamily[];
  /** Our node's name, lower case: what makes an endpoint local. */
  readonly nodeName: string;
  /** Empty for a family: every address. */
  readonly nodePortAddresses: readonly Cidr[];
  readonly masqueradeAll: boolean;
  /** 1 << masqueradeBit */
  readonly masqueradeMark: number;
  readonly localDetectors: Readonly<Partial<Record<IpFamily, LocalDetector>>>;
  /** Source ports that masquerading may use, if it must keep clear of NodePorts. */
  readonly masqueradePorts?: { readonly from: Port; readonly to: Port };
  /** Service addresses in these are served, but neither bound to kube-ipvs0 nor closed; absent: every one is bound. */
  readonly unboundCidrs?: readonly Cidr[];
  /** A local route stands for the service addresses in these: none of them is bound; absent: every one is. */
  readonly localRouteCidrs?: readonly Cidr[];
  /** iptables knows --random-fully. */
  readonly randomFully: boolean;
}

/** What the plan must know of the node itself. */
export interface NodeView {
  /** Zone label topology.kubernetes.io/zone; "" when it has none. */
  readonly zone: string;
  /** Primary address of each family: InternalIP before ExternalIP, as the Node object says (or --bind-address). */
  readonly nodeIps: readonly IpAddress[];
  /** Every InternalIP and ExternalIP in the Node object. */
  readonly reportedAddresses: readonly IpAddress[];
  /** Addresses on this node's interfaces but kube-ipvs0; loopback and link-local included. */
  readonly interfaceAddresses: readonly IpAddress[];
}
