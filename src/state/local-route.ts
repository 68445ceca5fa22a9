import type { Cidr } from '../base/cidr.ts';

/** A route on the loopback interface that makes all addresses of a network local without binding each of them. */
export interface LocalRoute {
  readonly cidr: Cidr;
  /** Whether the route has our protocol number. Routes of other programs are used too, but never deleted. */
  readonly ours: boolean;
}
