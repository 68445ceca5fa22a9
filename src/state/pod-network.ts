import { type IpAddress, formatHostPort, formatIp } from '../base/ip.ts';
import type { NamespacedName } from '../base/service/names.ts';
import type { Port } from '../base/port.ts';
import type { DirectForwarding, Encapsulation } from '../base/service/service-requests.ts';

/** A Pod that answers clients of a service address itself. */
export interface DirectPod {
  readonly service: NamespacedName;
  readonly pod: IpAddress;
  readonly address: IpAddress;
  readonly method: DirectForwarding;
  /** The header of a tunnel; absent for IPIP, and for other methods. */
  readonly encapsulation?: Encapsulation;
}

/** What a device in a Pod receives. Packets in GUE are IPIP, once the kernel has taken off their UDP header. */
type Delivery = 'ipip' | 'gre' | 'plain';

export function deliveryOf({ method, encapsulation }: Pick<DirectPod, 'method' | 'encapsulation'>): Delivery {
  if (method === 'route') return 'plain';
  return encapsulation?.type === 'gre' ? 'gre' : 'ipip';
}

/**
 * The devices of ours in a Pod's network namespace, by name. A tunnel must have the service addresses itself, because
 * the kernel drops packets from a device without addresses.
 */
export const POD_DEVICES = {
  'kube-ipvs-tun4': { kind: 'ipip', delivery: 'ipip', family: 4 },
  'kube-ipvs-tun6': { kind: 'ip6tnl', delivery: 'ipip', family: 6 },
  'kube-ipvs-gre4': { kind: 'gre', delivery: 'gre', family: 4 },
  'kube-ipvs-gre6': { kind: 'ip6gre', delivery: 'gre', family: 6 },
  'kube-ipvs-dsr': { kind: 'dummy', delivery: 'plain', family: undefined },
} as const;

export type PodDeviceName = keyof typeof POD_DEVICES;

/** A UDP port of a Pod at which the kernel takes off the header of GUE packets. */
export interface GuePort {
  readonly port: Port;
  /** The address that it is bound to, of the family that it receives. Ours have the Pod's; 0.0.0.0 or :: is any address. */
  readonly local: IpAddress;
}

/** net.ipv4.conf.DEVICE.rp_filter: the source of a packet must be reachable, through whichever device. */
export const RP_FILTER_LOOSE = 2;
/** net.ipv4.conf.DEVICE.arp_announce: ask for MAC addresses with an address of the device, not with the packet's source. */
export const ARP_ANNOUNCE_OWN = 2;

export interface PodDevice {
  readonly name: string;
  /** The driver, such as "ipip", if the kernel reports one. */
  readonly kind: string | undefined;
  /** The address of our side of a tunnel; undefined for other devices. */
  readonly local: IpAddress | undefined;
  readonly up: boolean;
  readonly addresses: readonly IpAddress[];
  /** sysctls net.ipv4.conf.DEVICE; 0 if the device has no IPv4. */
  readonly rpFilter: number;
  readonly arpAnnounce: number;
}

/** A change in a Pod's network namespace. */
export type PodOp =
  | { readonly kind: 'add-device'; readonly device: PodDeviceName; readonly local: IpAddress | undefined }
  | { readonly kind: 'delete-device'; readonly device: PodDeviceName }
  | { readonly kind: 'set-up'; readonly device: PodDeviceName }
  | { readonly kind: 'set-rp-filter'; readonly device: PodDeviceName; readonly value: number }
  | { readonly kind: 'set-arp-announce'; readonly device: string; readonly value: number }
  | { readonly kind: 'add-address' | 'delete-address'; readonly device: PodDeviceName; readonly address: IpAddress }
  | ({ readonly kind: 'add-gue-port' | 'delete-gue-port' } & GuePort);

export function formatPodOp(op: PodOp): string {
  if ('port' in op) return `${op.kind} ${formatHostPort(op.local, op.port)}`;
  const { kind, device } = op;
  if ('address' in op) return `${kind} ${formatIp(op.address)} on ${device}`;
  return 'value' in op ? `${kind}=${op.value} on ${device}` : `${kind} ${device}`;
}
