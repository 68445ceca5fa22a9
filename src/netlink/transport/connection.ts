import { constants } from 'node:os';
import {
  type NativeCounters,
  type NativeError,
  type NativeOptions,
  type NativeSocket,
  isNativeError,
  loadAddon,
} from './addon.ts';
import { requireLittleEndian } from '../codec/bytes.ts';
import { NetlinkError, type NetlinkErrorKind } from '../error.ts';
import { type Trace, traceMessages } from '../trace/trace.ts';

export interface TransactOptions {
  /**
   * The longest time without progress (a segment sent or a reply received). A dump may take any time while replies
   * arrive; its size is limited to 1 GiB.
   */
  readonly deadlineMs?: number;
}

/** A netlink socket with its queue of transactions. */
export interface SocketConnection {
  /** Allocates n consecutive sequence numbers (never 0) and returns the first one. The numbers wrap at 2^32. */
  sequence(n: number): number;
  /**
   * Sends the segments in order, each after the reply to the previous one. Resolves with all reply messages, each
   * aligned to 4 bytes, without bare success acknowledgements. `segments` are byte lengths that divide `request`; each
   * segment holds whole messages with ascending sequence numbers, and its last message requests an acknowledgement or
   * is a dump. A netfilter batch is one segment, in which the message before the last one requests it. If the kernel refuses a message, the reply contains its NLMSG_ERROR. Transactions run one at a time, in
   * order. The request may be reused as soon as the call returns. Rejects with a NetlinkError; its `outcomeUnknown` is
   * true if messages had been sent.
   */
  transact(request: Uint8Array, segments: readonly number[], options?: TransactOptions): Promise<Uint8Array>;
  readonly counters: Readonly<NativeCounters>;
  /** The socket's netlink address (nl_pid). */
  readonly port: number;
  /** The longest segment that the kernel accepts, in bytes; longer ones fail with EMSGSIZE. */
  readonly maxSegment: number;
  /** SO_RCVBUF as reported by the kernel. */
  readonly receiveBuffer: number;
  /** Rejects the transaction in flight and all waiting ones with a NetlinkError of kind `closed`. */
  close(): void;
}

export interface ConnectionOptions {
  /** Netlink protocol, such as NETLINK_ROUTE (linux/netlink.h). */
  readonly protocol: number;
  /** Path of the network namespace to open the socket in ("/run/netns/blue"); default: that of this process. */
  readonly netns?: string;
  /** Bytes of the longest segment. Without CAP_NET_ADMIN, the kernel caps the value at net.core.wmem_max. */
  readonly sendBuffer?: number;
  /** Bytes. Without CAP_NET_ADMIN, the kernel caps the value at net.core.rmem_max. */
  readonly receiveBuffer?: number;
  /** Default deadline of a transaction (see TransactOptions), in milliseconds. 30,000 if absent. */
  readonly deadlineMs?: number;
  /** An open datagram socket to use instead of a new one; the connection takes ownership. */
  readonly fd?: number;
  readonly trace?: Trace | undefined;
}

const DEFAULT_DEADLINE_MS = 30_000;
const SEND_BUFFER = 1024 * 1024;
const DEFAULT_RECEIVE_BUFFER = 4 * 1024 * 1024;
// Messages longer than sk_sndbuf - 32 fail with EMSGSIZE (net/netlink/af_netlink.c: netlink_sendmsg).
const SEND_OVERHEAD = 32;
const MAX_SEQUENCE = 0xffff_ffff;
const CLOSED = 'the connection was closed';

/**
 * Opens a socket. Throws a NetlinkError, for example EPERM or ENOENT if the network namespace cannot be entered, or
 * EPROTONOSUPPORT if the kernel lacks the netlink protocol.
 */
export function openConnection(options: ConnectionOptions): SocketConnection {
  requireLittleEndian();
  const { NetlinkSocket } = loadAddon();
  const { netns, fd } = options;
  const native: NativeOptions = {
    protocol: options.protocol,
    sndbuf: options.sendBuffer ?? SEND_BUFFER,
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
  readonly #protocol: number;
  readonly #trace: Trace | undefined;
  readonly #waiting: Job[] = [];
  #next = 1;
  #running = false;
  #closed = false;

  constructor(socket: NativeSocket, options: ConnectionOptions) {
    this.#socket = socket;
    this.#deadlineMs = options.deadlineMs ?? DEFAULT_DEADLINE_MS;
    this.#protocol = options.protocol;
    this.#trace = options.trace;
    const info = socket.info();
    this.port = info.port;
    this.maxSegment = info.sendBuffer - SEND_OVERHEAD;
    this.receiveBuffer = info.receiveBuffer;
  }

  get counters(): SocketConnection['counters'] {
    return this.#socket.counters();
  }

  sequence(n: number): number {
    if (!Number.isInteger(n) || n < 1 || n > MAX_SEQUENCE)
      throw new RangeError(`cannot allocate ${n} sequence numbers`);
    // A range that would pass MAX_SEQUENCE starts at 1 instead, so it is consecutive and without 0.
    const first = this.#next + n - 1 > MAX_SEQUENCE ? 1 : this.#next;
    this.#next = first + n > MAX_SEQUENCE ? 1 : first + n;
    return first;
  }

  async transact(request: Uint8Array, segments: readonly number[], options: TransactOptions = {}): Promise<Uint8Array> {
    if (this.#closed) throw closedError();
    if (request.length === 0 && segments.length === 0) return new Uint8Array(0);
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    const job: Job = {
      // A waiting request is copied, because the caller may reuse its buffer. The addon copies other requests at once.
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
    const trace = this.#trace?.enabled() === true ? this.#trace : undefined;
    if (trace !== undefined) traceMessages(trace, 'sent', this.#protocol, job.request);
    try {
      const reply = await this.#socket.transact(job.request, job.segments, job.deadlineMs);
      if (trace !== undefined) traceMessages(trace, 'received', this.#protocol, reply);
      return reply;
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
  return new NetlinkError({ kind: 'closed', operation: 'send', errno: constants.errno.ECANCELED, text: CLOSED });
}

// Errors of other kinds (a TypeError for a wrong argument) are returned unchanged.
function translate(error: unknown, object?: string): unknown {
  if (!isNativeError(error)) return error;
  const { operation, errno, sent } = error;
  const kind = kindOf(error);
  const text = kind === 'closed' ? CLOSED : undefined;
  return new NetlinkError({ kind, operation, object, errno, text, outcomeUnknown: sent > 0 });
}

function kindOf({ operation, errno }: NativeError): NetlinkErrorKind {
  const { ECANCELED, ETIMEDOUT, EBADMSG, ENOBUFS, EMSGSIZE, ENOMEM } = constants.errno;
  if (errno === ECANCELED) return 'closed';
  if (errno === ETIMEDOUT) return 'timeout';
  if (operation !== 'receive') return 'system';
  if (errno === EBADMSG) return 'malformed';
  return errno === ENOBUFS || errno === EMSGSIZE || errno === ENOMEM ? 'lost' : 'system';
}
