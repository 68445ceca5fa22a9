import type { Cidr } from '../net/cidr.ts';

/** A route of the loopback interface that makes every address of a network a local one: it stands for an address for each service. */
export interface LocalRoute {
  readonly cidr: Cidr;
  /** Made by us, which its protocol number tells; others' serve as well, but are never deleted. */
  readonly ours: boolean;
}
