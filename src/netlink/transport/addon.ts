import { createRequire } from 'node:module';

/** A netlink socket of the addon (native/netlink_socket.cc). Its methods throw or reject with a NativeError. */
export interface NativeSocket {
  /** Copies both arrays before it returns. Rejects with EBUSY while another transaction is in flight. */
  transact(request: Uint8Array, segments: Uint32Array, deadlineMs: number): Promise<Uint8Array>;
  /**
   * Joins multicast groups and passes their messages to `callback`. The socket then accepts no transactions and does
   * not keep the process alive. `errno` ENOBUFS: messages were lost, more will follow. Any other error is final.
   */
  listen(groups: Uint32Array, callback: (reports: Uint8Array | undefined, errno: number) => void): void;
  counters(): NativeCounters;
  /** `port` is nl_pid. The kernel reports buffer sizes as twice the requested value. */
  info(): { readonly port: number; readonly sendBuffer: number; readonly receiveBuffer: number };
  close(): void;
}

export interface NativeCounters {
  /** Successful sendmsg calls. */
  readonly sends: number;
  readonly bytesSent: number;
  readonly bytesReceived: number;
  /** Request messages sent. */
  readonly messages: number;
  /** send, recv, recvmsg and poll calls of all transactions. */
  readonly systemCalls: number;
}

export interface NativeOptions {
  readonly protocol: number;
  readonly netns?: string;
  readonly sndbuf?: number;
  readonly rcvbuf?: number;
  readonly fd?: number;
}

export interface NativeError {
  readonly operation: string;
  readonly errno: number;
  /** Segments sent before the error. */
  readonly sent: number;
}

export function isNativeError(value: unknown): value is NativeError {
  return typeof value === 'object' && value !== null && 'operation' in value && 'errno' in value && 'sent' in value;
}

export interface Addon {
  readonly NetlinkSocket: new (options: NativeOptions) => NativeSocket;
  /**
   * Returns the address and port of a TCP connection before rules of this node translated them, in network byte order (6
   * or 18 bytes). Throws a NativeError: ENOENT if connection tracking does not know the connection.
   */
  readonly originalDestination: (fd: number) => Uint8Array;
  /**
   * Calls getsockopt(2) for each of the values, whose lengths divide `values`, at a new datagram socket in the network namespace with this
   * path, or in that of this process. The kernel overwrites the values; those that it refuses become zeros. Throws a NativeError if
   * there is no socket.
   */
  readonly socketOptions: (
    netns: string | undefined,
    domain: number,
    level: number,
    option: number,
    values: Uint8Array,
    lengths: Uint32Array,
  ) => void;
}

/** Loads the addon. Throws an error with its path if it is missing or was built for another Node version. */
export function loadAddon(): Addon {
  // The addon is next to the bundle, or in build/ when run from source. Native code is loaded from nowhere else.
  const fromSource = import.meta.url.endsWith('/src/netlink/transport/addon.ts');
  const path = fromSource ? '../../../build/native/netlink_socket.node' : './native/netlink_socket.node';
  const addon: unknown = createRequire(import.meta.url)(path);
  if (!isAddon(addon)) throw new Error(`${path} does not export NetlinkSocket`);
  return addon;
}

function isAddon(value: unknown): value is Addon {
  return typeof value === 'object' && value !== null && 'NetlinkSocket' in value;
}
