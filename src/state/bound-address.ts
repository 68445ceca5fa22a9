import { type IpAddress, isIp4 } from '../base/ip.ts';

/** An address bound to kube-ipvs0. */
export interface BoundAddress {
  readonly address: IpAddress;
  readonly prefix: number;
  /** Whether flags and lifetimes equal those that bind-address sets. Addresses bound by kube-proxy have other ones. */
  readonly conforms: boolean;
  /** Another program deleted or replaced its route in table local, so packets to it do not arrive; absent otherwise. */
  readonly unrouted?: true;
}

/** Returns the prefix length of a single address. */
export function hostPrefix(address: IpAddress): number {
  return isIp4(address) ? 32 : 128;
}
