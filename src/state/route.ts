import type { IpAddress } from '../base/ip.ts';

/** How this node sends packets to an address. */
export interface Route {
  /** Whether the address is one of this node itself. */
  readonly local: boolean;
  readonly interfaceName: string;
  /** Whether the packets pass a gateway. */
  readonly gateway: boolean;
  /** The source address of this node's own connections; absent if the kernel does not name one. */
  readonly source?: IpAddress;
}
