import type { IpFamily } from '../../../base/ip.ts';
import type { Protocol } from '../../../base/protocol.ts';
import type { AddressKind, AddressTraits } from '../../../state/address-traits.ts';
import type { Endpoint } from '../../../state/real-server.ts';
import type { VirtualServerId } from '../../../state/virtual-server.ts';
import type { ChainText } from '../../iptables/iptables-script.ts';

/** The kinds of addresses, in the order of the chains. `address`: the virtual server does not name the kind. */
export const SERVED_KINDS = ['cluster', 'address', 'loadBalancer', 'external', 'nodePort'] as const;
export type ServedAddressKind = AddressKind | 'address';

/** How comments name the kinds; as far as upstream names them, too, in its words. */
export const KIND_TEXTS: Readonly<Record<ServedAddressKind, string>> = {
  cluster: 'cluster IP',
  address: 'service address',
  loadBalancer: 'loadbalancer IP',
  external: 'external IP',
  nodePort: 'node port',
};

/** End of the comment of a rule that admits a load balancer IP as a source, which no source range contains. */
export const ADMITS_ITSELF = ' loadbalancer IP from itself';

/** What the comment of a rule that rejects says of an address that keeps the source of its clients. */
export const SOURCE_KEPT = ' (source kept)';

/** A virtual server, as its Service port needs it. */
export interface ServedAddress extends Omit<AddressTraits, 'kind'> {
  readonly id: VirtualServerId;
  readonly kind: ServedAddressKind;
  /** Seconds of session affinity; 0: none. */
  readonly affinity: number;
  /** Sorted. Addresses of a Service port with the same endpoints have the same list. */
  readonly endpoints: readonly Endpoint[];
}

/** A port of a Service of one family, with all addresses at which it is served. */
export interface ServicePort {
  readonly family: IpFamily;
  /** See servicePortName(). */
  readonly name: string;
  readonly protocol: Protocol;
  /** Sorted by kind, then by address and port. */
  readonly addresses: readonly ServedAddress[];
}

export type Table = 'nat' | 'filter';

/** A chain that is ours as a whole. */
export interface OwnChain extends ChainText {
  readonly table: Table;
}

/** A rule of a chain that all service ports share. */
export interface SharedRule {
  readonly table: Table;
  readonly chain: string;
  readonly rule: string;
}

/** The chains and rules of a service port. */
export interface Rendered {
  readonly chains: readonly OwnChain[];
  readonly shared: readonly SharedRule[];
}

/** nat: marks packets for masquerading. */
export const MARK_CHAIN = 'KUBE-MARK-MASQ';
/** nat: leads from service addresses to their chains; filter: rejects connections to cluster IPs without endpoints. */
export const SERVICES = 'KUBE-SERVICES';
/** nat: leads from node ports to their chains; filter: accepts health checks. */
export const NODE_PORTS = 'KUBE-NODEPORTS';
/** filter: rejects connections to other addresses without endpoints. */
export const EXTERNAL_SERVICES = 'KUBE-EXTERNAL-SERVICES';
/** filter: drops packets to load balancer IPs from outside of the source ranges. */
export const FIREWALL = 'KUBE-PROXY-FIREWALL';
