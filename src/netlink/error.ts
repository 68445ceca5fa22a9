import { constants } from 'node:os';
import { getSystemErrorMap } from 'node:util';

/**
 * What a failed netlink operation means to who asked for it:
 * - `kernel`: the kernel's own answer to one message (NLMSG_ERROR, or an error at the end of a dump);
 * - `system`: a system call failed (open, enter a namespace, send), or the request was malformed and nothing was sent;
 * - `lost`: the receive queue overflowed (ENOBUFS): replies are gone, the messages were executed;
 * - `timeout`: the deadline passed; `closed`: the connection was closed; `malformed`: the reply lies about its lengths.
 */
export type NetlinkErrorKind = 'kernel' | 'system' | 'lost' | 'timeout' | 'closed' | 'malformed';

export interface NetlinkErrorDetails {
  readonly kind: NetlinkErrorKind;
  /** What was tried: "send", "receive", "enter network namespace", or the message's name in the header ("RTM_NEWADDR"). */
  readonly operation: string;
  /** Positive. */
  readonly errno: number;
  /** What it was tried on. */
  readonly object?: string | undefined;
  /** The kernel's own words (NLMSGERR_ATTR_MSG). */
  readonly text?: string | undefined;
  /** Where in the request the kernel found fault: bytes from the start of that message (NLMSGERR_ATTR_OFFS). */
  readonly offset?: number | undefined;
  /** The message that failed. */
  readonly sequence?: number | undefined;
  readonly outcomeUnknown?: boolean | undefined;
}

export class NetlinkError extends Error {
  readonly kind: NetlinkErrorKind;
  readonly operation: string;
  readonly object: string | undefined;
  readonly errno: number;
  /** The name of `errno`: "EEXIST"; "ERRNO_4103" for one that has no name here, such as those of ipset. */
  readonly code: string;
  readonly text: string | undefined;
  readonly offset: number | undefined;
  readonly sequence: number | undefined;
  /** Messages were given to the kernel whose replies nobody read: read the state back before the next write. */
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
    this.offset = details.offset;
    this.sequence = details.sequence;
    this.outcomeUnknown = details.outcomeUnknown ?? false;
  }
}

/** A reply whose lengths cannot be true. */
export function malformed(what: string, sequence?: number): NetlinkError {
  return new NetlinkError({
    kind: 'malformed',
    operation: 'receive',
    errno: constants.errno.EBADMSG,
    text: what,
    sequence,
    outcomeUnknown: true,
  });
}

/** "EEXIST" for 17. */
export function errnoName(errno: number): string {
  // libuv's table has the usual name where Linux has two for one number (EAGAIN, EWOULDBLOCK), but not every number, and
  // not the kernel's word for 95.
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
