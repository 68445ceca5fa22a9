import type { Cidr } from '../base/cidr.ts';
import type { IpAddress } from '../base/ip.ts';

/** A route on the loopback interface that makes all addresses of a network local without binding each of them. */
export interface LocalRoute {
  readonly cidr: Cidr;
  /** Whether the route has our protocol number. Routes of other programs are used too, but never deleted. */
  readonly ours: boolean;
  /**
   * The source address of this node's own connections to the network; absent: the address that they connect to. Ours have
   * one only while ipvs mode is being retired.
   */
  readonly source?: IpAddress;
}
