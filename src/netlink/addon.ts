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

export function isNativeError(value: unknown): value is NativeError {
  return typeof value === 'object' && value !== null && 'operation' in value && 'errno' in value && 'sent' in value;
}

/** How a program ended, and what it wrote. */
export interface NativeRun {
  /** Exit status; -1 when a signal ended it. */
  readonly status: number;
  /** Number of that signal, else 0. */
  readonly signal: number;
  readonly stdout: Uint8Array<ArrayBuffer>;
  readonly stderr: Uint8Array<ArrayBuffer>;
}

/**
 * Runs a program to its end without a fork of this process (native/process.h). `argv` begins with the program: a path, or a name
 * that is looked for in the PATH of `env`; `env` ("NAME=value") is all it gets. Copies everything before it returns. Rejects
 * with ENOENT where there is no such program, ETIMEDOUT at the deadline and EFBIG after more than `maxOutput` bytes on one
 * of its streams: in these two cases it was killed.
 */
export type RunProcess = (
  argv: readonly string[],
  env: readonly string[],
  stdin: Uint8Array,
  deadlineMs: number,
  maxOutput: number,
) => Promise<NativeRun>;

export interface Addon {
  readonly NetlinkSocket: new (options: NativeOptions) => NativeSocket;
  readonly runProcess: RunProcess;
}

/** Throws with the path where the addon is missing or was built for another Node. */
export function loadAddon(): Addon {
  // The bundle build/kube-ipvs-proxy.mjs has the addon beside it; from its source it is where the Makefile puts it. No
  // other place is tried: native code is loaded from the build's own folder or not at all.
  const fromSource = import.meta.url.endsWith('/src/netlink/addon.ts');
  const path = fromSource ? '../../build/native/netlink_socket.node' : './native/netlink_socket.node';
  const addon: unknown = createRequire(import.meta.url)(path);
  if (!isAddon(addon)) throw new Error(`${path} is not the addon of this program`);
  return addon;
}

function isAddon(value: unknown): value is Addon {
  if (typeof value !== 'object' || value === null) return false;
  const { NetlinkSocket, runProcess }: { NetlinkSocket?: unknown; runProcess?: unknown } = value;
  return typeof NetlinkSocket === 'function' && typeof runProcess === 'function';
}
