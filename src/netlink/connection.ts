import { constants } from 'node:os';
import {
  type NativeCounters,
  type NativeError,
  type NativeOptions,
  type NativeSocket,
  isNativeError,
  loadAddon,
} from './addon.ts';
import { requireLittleEndian } from './codec/bytes.ts';
import { NetlinkError, type NetlinkErrorKind } from './error.ts';

export interface TransactOptions {
  /**
   * The longest time without progress, from when the transaction's turn comes: the kernel took a segment, or sent a reply to
   * it. A kernel that answers steadily is never cut off, however long a dump takes; what bounds one is its size, 1 GiB.
   */
  readonly deadlineMs?: number;
}

/** The one owner of a netlink socket; an interface, so that a fake can stand in. */
export interface Connection {
  /** Allocates n consecutive sequence numbers (never 0, wraps at 2^32), returns the first. */
  sequence(n: number): number;
  /**
   * Sends the segments in order, each when the one before was answered; resolves with all reply messages concatenated,
   * each aligned to 4 bytes, without the success acknowledgements that say nothing more. Segments: byte lengths that cut
   * `request`; each holds whole messages with rising sequence numbers, of which the last asks for an acknowledgement or
   * is a dump. A message that the kernel refuses does not reject: its NLMSG_ERROR is in the reply. Transactions run one
   * at a time, first come, first served. The request may be reused as soon as the call returns. Rejects with a
   * NetlinkError; `outcomeUnknown` tells whether messages had been sent by then.
   */
  transact(request: Uint8Array, segments: readonly number[], options?: TransactOptions): Promise<Uint8Array>;
  readonly counters: Readonly<NativeCounters>;
  /** Rejects the transaction in flight and those that wait, with a NetlinkError of kind `closed`. */
  close(): void;
}

export interface ConnectionOptions {
  /** NETLINK_ROUTE, NETLINK_GENERIC, ... (linux/netlink.h). */
  readonly protocol: number;
  /** Path of the network namespace to open the socket in ("/run/netns/blue", "/proc/1/ns/net"); default: our own. */
  readonly netns?: string;
  /** Bytes. Beyond net.core.[rw]mem_max only with CAP_NET_ADMIN, silently capped without. */
  readonly sendBuffer?: number;
  readonly receiveBuffer?: number;
  /** For transactions that name none (see TransactOptions). Default 30,000. */
  readonly deadlineMs?: number;
  /** An open datagram socket to use in place of a new one; the connection owns it from here on. */
  readonly fd?: number;
  /** Default 1. */
  readonly firstSequence?: number;
}

/** A connection to the kernel, with what only a real socket knows. */
export interface SocketConnection extends Connection {
  /** The socket's netlink address (nl_pid). */
  readonly port: number;
  /** The longest segment that the kernel takes, in bytes; a longer one fails with EMSGSIZE. */
  readonly maxSegment: number;
  /** SO_RCVBUF as the kernel counts it. */
  readonly receiveBuffer: number;
}

const DEFAULT_DEADLINE_MS = 30_000;
const DEFAULT_SEND_BUFFER = 1024 * 1024;
const DEFAULT_RECEIVE_BUFFER = 4 * 1024 * 1024;
// net/netlink/af_netlink.c (netlink_sendmsg): EMSGSIZE beyond sk_sndbuf - 32.
const SEND_OVERHEAD = 32;
const MAX_SEQUENCE = 0xffff_ffff;

/** Opens a socket. Throws a NetlinkError: EPERM or ENOENT for a namespace, EPROTONOSUPPORT for a protocol not in the kernel. */
export function openConnection(options: ConnectionOptions): SocketConnection {
  requireLittleEndian();
  const { NetlinkSocket } = loadAddon();
  const { netns, fd } = options;
  const native: NativeOptions = {
    protocol: options.protocol,
    sndbuf: options.sendBuffer ?? DEFAULT_SEND_BUFFER,
    rcvbuf: options.receiveBuffer ?? DEFAULT_RECEIVE_BUFFER,
    ...(netns === undefined ? {} : { netns }),
    ...(fd === undefined ? {} : { fd }),
  };
  let socket: NativeSocket;
  try {
    socket = new NetlinkSocket(native);
  } catch (error) {
    throw translate(error, netns);
  }
  return new NativeConnection(socket, options);
}

interface Job {
  readonly request: Uint8Array;
  readonly segments: Uint32Array;
  readonly deadlineMs: number;
  readonly resolve: (reply: Uint8Array) => void;
  readonly reject: (error: unknown) => void;
}

class NativeConnection implements SocketConnection {
  readonly port: number;
  readonly maxSegment: number;
  readonly receiveBuffer: number;
  readonly #socket: NativeSocket;
  readonly #deadlineMs: number;
  readonly #waiting: Job[] = [];
  #next: number;
  #running = false;
  #closed = false;

  constructor(socket: NativeSocket, options: ConnectionOptions) {
    this.#socket = socket;
    this.#deadlineMs = options.deadlineMs ?? DEFAULT_DEADLINE_MS;
    this.#next = options.firstSequence ?? 1;
    const info = socket.info();
    this.port = info.port;
    this.maxSegment = info.sendBuffer - SEND_OVERHEAD;
    this.receiveBuffer = info.receiveBuffer;
  }

  get counters(): Connection['counters'] {
    return this.#socket.counters();
  }

  sequence(n: number): number {
    if (!Number.isInteger(n) || n < 1 || n > MAX_SEQUENCE)
      throw new RangeError(`cannot allocate ${n} sequence numbers`);
    // A run that would pass the end starts over at 1: consecutive without a 0 among them.
    const first = this.#next + n - 1 > MAX_SEQUENCE ? 1 : this.#next;
    this.#next = first + n > MAX_SEQUENCE ? 1 : first + n;
    return first;
  }

  async transact(request: Uint8Array, segments: readonly number[], options: TransactOptions = {}): Promise<Uint8Array> {
    if (this.#closed) throw closedError();
    if (request.length === 0 && segments.length === 0) return new Uint8Array(0);
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    const job: Job = {
      // The addon copies what it starts with; what waits is copied here, or its owner could not reuse the buffer.
      request: this.#running ? request.slice() : request,
      segments: Uint32Array.from(segments),
      deadlineMs: options.deadlineMs ?? this.#deadlineMs,
      resolve,
      reject,
    };
    if (this.#running) this.#waiting.push(job);
    else this.#start(job);
    return promise;
  }

  close(): void {
    this.#closed = true;
    this.#socket.close();
    for (const job of this.#waiting.splice(0)) job.reject(closedError());
  }

  #start(job: Job): void {
    this.#running = true;
    this.#run(job).then(job.resolve, job.reject);
  }

  async #run(job: Job): Promise<Uint8Array> {
    try {
      return await this.#socket.transact(job.request, job.segments, job.deadlineMs);
    } catch (error) {
      throw translate(error);
    } finally {
      this.#running = false;
      const next = this.#waiting.shift();
      if (next !== undefined) this.#start(next);
    }
  }
}

function closedError(): NetlinkError {
  return new NetlinkError({ kind: 'closed', operation: 'send', errno: constants.errno.ECANCELED });
}

// A TypeError for a wrong argument is the caller's mistake and stays what it is.
function translate(error: unknown, object?: string): unknown {
  if (!isNativeError(error)) return error;
  const { operation, errno, sent } = error;
  return new NetlinkError({ kind: kindOf(error), operation, object, errno, outcomeUnknown: sent > 0 });
}

function kindOf({ operation, errno }: NativeError): NetlinkErrorKind {
  const { ECANCELED, ETIMEDOUT, EBADMSG, ENOBUFS, EMSGSIZE, ENOMEM } = constants.errno;
  if (errno === ECANCELED) return 'closed';
  if (errno === ETIMEDOUT) return 'timeout';
  if (operation !== 'receive') return 'system';
  if (errno === EBADMSG) return 'malformed';
  return errno === ENOBUFS || errno === EMSGSIZE || errno === ENOMEM ? 'lost' : 'system';
}
