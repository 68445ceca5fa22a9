import type { Socket } from 'node:net';
import { type IpAddress, ip4FromBytes, ip6FromBytes } from '../../base/ip.ts';
import { type Port, toPort } from '../../base/port.ts';
import { loadAddon } from './addon.ts';

/** An address and a port that clients connect to. */
export interface OriginalDestination {
  readonly address: IpAddress;
  readonly port: Port;
}

/**
 * Returns where a client connected to, before rules of this node translated the destination: the local address if none
 * did. Throws a NativeError: ENOENT if connection tracking does not know the connection, ENOPROTOOPT if it is not loaded,
 * EBADF if the socket has no descriptor any more.
 */
export function originalDestination(socket: Socket): OriginalDestination | undefined {
  const bytes = loadAddon().originalDestination(descriptorOf(socket));
  const length = bytes.length - 2;
  const port = toPort(new DataView(bytes.buffer, bytes.byteOffset).getUint16(length));
  if (port === undefined) return undefined;
  return { address: length === 4 ? ip4FromBytes(bytes, 0) : ip6FromBytes(bytes, 0), port };
}

/** Above every descriptor that a process can have, so that the kernel says EBADF. */
const NO_DESCRIPTOR = 2 ** 31 - 1;

/** Node.js has no public name for it. */
function descriptorOf(socket: Socket): number {
  const handle: unknown = '_handle' in socket ? socket._handle : undefined;
  if (typeof handle !== 'object' || handle === null || !('fd' in handle)) return NO_DESCRIPTOR;
  return typeof handle.fd === 'number' && handle.fd >= 0 ? handle.fd : NO_DESCRIPTOR;
}
