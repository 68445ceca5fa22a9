import { constants } from 'node:os';
import { getSystemErrorMap } from 'node:util';

/**
 * Why a netlink operation failed:
 * - `kernel`: the kernel's error for one message (NLMSG_ERROR, or an error at the end of a dump);
 * - `system`: a system call failed (open, enter a namespace, send), or the request was malformed and nothing was sent;
 * - `lost`: the receive queue overflowed (ENOBUFS): replies are lost, the messages were executed;
 * - `timeout`: the deadline passed; `closed`: the connection was closed; `malformed`: the reply has invalid lengths.
 */
export type NetlinkErrorKind = 'kernel' | 'system' | 'lost' | 'timeout' | 'closed' | 'malformed';

export interface NetlinkErrorDetails {
  readonly kind: NetlinkErrorKind;
  /** The failed step ("send", "receive", "enter network namespace") or the message's header name ("RTM_NEWADDR"). */
  readonly operation: string;
  /** Positive errno. */
  readonly errno: number;
  /** What the operation was applied to, such as a path. */
  readonly object?: string | undefined;
  /** The kernel's error text (NLMSGERR_ATTR_MSG). */
  readonly text?: string | undefined;
  readonly outcomeUnknown?: boolean | undefined;
}

export class NetlinkError extends Error {
  readonly kind: NetlinkErrorKind;
  readonly operation: string;
  readonly object: string | undefined;
  readonly errno: number;
  /** The name of `errno`, such as "EEXIST"; "ERRNO_4103" for ipset errors and others without a name. */
  readonly code: string;
  readonly text: string | undefined;
  /** Whether messages were sent whose replies were not read. If so, read the state before the next write. */
  readonly outcomeUnknown: boolean;

  constructor(details: NetlinkErrorDetails) {
    super(describe(details));
    this.name = 'NetlinkError';
    this.kind = details.kind;
    this.operation = details.operation;
    this.object = details.object;
    this.errno = details.errno;
    this.code = errnoName(details.errno);
    this.text = details.text;
    this.outcomeUnknown = details.outcomeUnknown ?? false;
  }
}

/** Returns the error for a reply with invalid lengths. */
export function malformed(what: string): NetlinkError {
  return new NetlinkError({
    kind: 'malformed',
    operation: 'receive',
    errno: constants.errno.EBADMSG,
    text: what,
    outcomeUnknown: true,
  });
}

/** Returns the name of a positive errno, such as "EEXIST" for 17, or "ERRNO_4103" if it has none. */
export function errnoName(errno: number): string {
  // libuv's table has one name for each number (EAGAIN, not EWOULDBLOCK), lacks some numbers, and calls 95 ENOTSUP.
  const known = getSystemErrorMap().get(-errno)?.[0];
  if (known === 'ENOTSUP') return 'EOPNOTSUPP';
  if (known !== undefined) return known;
  for (const [name, value] of Object.entries(constants.errno)) if (value === errno) return name;
  return `ERRNO_${errno}`;
}

function describe(details: NetlinkErrorDetails): string {
  const { operation, object, errno, text } = details;
  const subject = object === undefined ? operation : `${operation} ${object}`;
  const words = getSystemErrorMap().get(-errno)?.[1];
  const reason = words === undefined ? errnoName(errno) : `${words} (${errnoName(errno)})`;
  return text === undefined ? `${subject}: ${reason}` : `${subject}: ${reason}: ${text}`;
}
