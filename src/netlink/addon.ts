import { createRequire } from 'node:module';

/** What the addon does with one socket (native/netlink_socket.cc). Rejections and thrown errors: see NativeError. */
export interface NativeSocket {
  /** Copies both arrays before it returns. Refuses with EBUSY while another transaction is in flight. */
  transact(request: Uint8Array, segments: Uint32Array, deadlineMs: number): Promise<Uint8Array>;
  /**
   * Joins multicast groups and calls back with what they report, whole messages, from then on; in place of transactions.
   * `errno` ENOBUFS: reports were lost, more will come; any other but 0: no more will come. Does not keep the process alive.
   */
  listen(groups: Uint32Array, callback: (reports: Uint8Array | undefined, errno: number) => void): void;
  counters(): NativeCounters;
  /** `port`: the socket's netlink address (nl_pid). Buffer sizes as the kernel counts them: twice what was asked for. */
  info(): { readonly port: number; readonly sendBuffer: number; readonly receiveBuffer: number };
  close(): void;
}

export interface NativeCounters {
  /** sendmsg calls that the kernel took. */
  readonly sends: number;
  readonly bytesSent: number;
  readonly bytesReceived: number;
  /** Request messages in those sends. */
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

/** What the addon adds to its errors. */
export interface NativeError {
  readonly operation: string;
  readonly errno: number;
  /** Segments that had been given to the kernel. */
  readonly sent: number;
}

export interface NetlinkAddon {
  readonly NetlinkSocket: new (options: NativeOptions) => NativeSocket;
}

/** Throws with the path where the addon is missing or was built for another Node. */
export function loadAddon(): NetlinkAddon {
  // The bundle build/kube-ipvs-proxy.mjs has the addon beside it; from its source it is where the Makefile puts it. No
  // other place is tried: native code is loaded from the build's own folder or not at all.
  const fromSource = import.meta.url.endsWith('/src/netlink/addon.ts');
  const path = fromSource ? '../../build/native/netlink_socket.node' : './native/netlink_socket.node';
  const addon: unknown = createRequire(import.meta.url)(path);
  if (!isAddon(addon)) throw new Error(`${path} is not the netlink addon`);
  return addon;
}

function isAddon(value: unknown): value is NetlinkAddon {
  return (
    typeof value === 'object' && value !== null && 'NetlinkSocket' in value && typeof value.NetlinkSocket === 'function'
  );
}
