import type { IpAddress } from '../../base/ip.ts';
import type { Port } from '../../base/port.ts';
import type { Protocol } from '../../base/protocol.ts';

/** The first packet of a connection, as the rules of one hook see it. */
export interface Packet {
  readonly source: IpAddress;
  readonly destination: IpAddress;
  readonly protocol: Protocol;
  readonly port: Port;
  readonly mark: number;
  /** Undefined in the hooks that have no incoming interface. */
  readonly inInterface: string | undefined;
  /** Whether the addresses are of type LOCAL on this node. */
  readonly sourceLocal: boolean;
  readonly destinationLocal: boolean;
}

/** A packet whose mark may not be known. */
export type SeenPacket = Omit<Packet, 'mark'> & { readonly mark: number | undefined };
