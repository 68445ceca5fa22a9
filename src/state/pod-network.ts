import { type IpAddress, formatIp } from '../base/ip.ts';
import type { NamespacedName } from '../base/names.ts';

/** A Pod that answers clients of a service address itself. */
export interface DirectPod {
  readonly service: NamespacedName;
  readonly pod: IpAddress;
  readonly address: IpAddress;
  readonly method: 'tunnel' | 'route';
}

/**
 * The devices of ours in a Pod's network namespace, by name. A tunnel must have the service addresses itself, because
 * the kernel drops packets from a device without addresses.
 */
export const POD_DEVICES = {
  'kube-ipvs-tun4': { kind: 'ipip', method: 'tunnel', family: 4 },
  'kube-ipvs-tun6': { kind: 'ip6tnl', method: 'tunnel', family: 6 },
  'kube-ipvs-dsr': { kind: 'dummy', method: 'route', family: undefined },
} as const;

export type PodDeviceName = keyof typeof POD_DEVICES;

/** net.ipv4.conf.DEVICE.rp_filter: the source of a packet must be reachable, through whichever device. */
export const LOOSE = 2;
/** net.ipv4.conf.DEVICE.arp_announce: ask for MAC addresses with an address of the device, not with the packet's source. */
export const OWN_ADDRESS = 2;

/** A network device in a Pod's namespace. */
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
  | { readonly kind: 'add-address' | 'delete-address'; readonly device: PodDeviceName; readonly address: IpAddress };

export function formatPodOp(op: PodOp): string {
  const { kind, device } = op;
  if ('address' in op) return `${kind} ${formatIp(op.address)} on ${device}`;
  return 'value' in op ? `${kind}=${op.value} on ${device}` : `${kind} ${device}`;
}
