import { readText, readU16, readU32 } from './codec/bytes.ts';
import { ATTRIBUTE_HEADER_SIZE, MESSAGE_HEADER_SIZE, NLA_TYPE_MASK, NLM_F_DUMP_INTR, align4 } from './codec/flags.ts';
import { NetlinkError, malformed } from './error.ts';

/** Types of the messages that belong to netlink itself. linux/netlink.h: NLMSG_*. */
export const NLMSG_ERROR = 2;
export const NLMSG_DONE = 3;

/** linux/netlink.h. CAPPED: an error contains only the request's header. ACK_TLVS: attributes follow the request. */
export const NLM_F_CAPPED = 0x100;
const NLM_F_ACK_TLVS = 0x200;
/** linux/netlink.h: enum nlmsgerr_attrs. */
const NLMSGERR_ATTR_MSG = 1;
const NLMSGERR_ATTR_OFFS = 2;

/** One message of a reply. struct nlmsghdr (linux/netlink.h), host byte order. */
export interface NetlinkMessage {
  readonly type: number;
  /** NLM_F_* bits. */
  readonly flags: number;
  readonly sequence: number;
  /** The bytes after the header, as a view into the reply. */
  readonly payload: Uint8Array;
}

export interface KernelAnswer {
  /** Positive; 0: success. */
  readonly errno: number;
  readonly sequence: number;
  /** The kernel's error text, or a warning if errno is 0. NLMSGERR_ATTR_MSG. */
  readonly text: string | undefined;
  /** Offset of the rejected attribute, in bytes from the start of the request's header. NLMSGERR_ATTR_OFFS. */
  readonly offset: number | undefined;
}

/** Yields the messages of a reply, in order. Throws a NetlinkError of kind `malformed` on an invalid length. */
export function* messages(reply: Uint8Array): Generator<NetlinkMessage, void, undefined> {
  let at = 0;
  while (at < reply.length) {
    const left = reply.length - at;
    if (left < MESSAGE_HEADER_SIZE) throw malformed(`${left} bytes left, too few for a message header`);
    const length = readU32(reply, at);
    if (length < MESSAGE_HEADER_SIZE || length > left) {
      throw malformed(`message length ${length} with ${left} bytes left`);
    }
    yield {
      type: readU16(reply, at + 4),
      flags: readU16(reply, at + 6),
      sequence: readU32(reply, at + 8),
      payload: reply.subarray(at + MESSAGE_HEADER_SIZE, at + length),
    };
    at += align4(length);
  }
}

/**
 * Returns the result in an NLMSG_ERROR (struct nlmsgerr) or NLMSG_DONE (an int), undefined for any other message. A
 * DONE without payload, as older families send it, means success.
 */
export function answerOf(message: NetlinkMessage): KernelAnswer | undefined {
  const { type, flags, sequence, payload } = message;
  if (type !== NLMSG_ERROR && type !== NLMSG_DONE) return undefined;
  if (payload.length < 4) {
    if (type === NLMSG_ERROR || payload.length > 0) throw malformed('a result too short for its errno');
    return { errno: 0, sequence, text: undefined, offset: undefined };
  }
  const code = readU32(payload, 0) | 0;
  // NLMSG_DONE may carry a count instead of 0; errors are always negative.
  if (code > 0 && type === NLMSG_ERROR) throw malformed(`an NLMSG_ERROR with errno ${-code}`);
  const errno = code < 0 ? -code : 0;
  if ((flags & NLM_F_ACK_TLVS) === 0) return { errno, sequence, text: undefined, offset: undefined };
  return { errno, sequence, ...readAttributes(payload, attributesStart(message)) };
}

/** Returns the sequence numbers of dumps that a change interrupted (NLM_F_DUMP_INTR); they must be repeated. */
export function interruptedDumps(reply: Uint8Array): Set<number> {
  const found = new Set<number>();
  // Reads only headers, without an object for each message; `messages` reports invalid lengths.
  for (let at = 0; reply.length - at >= MESSAGE_HEADER_SIZE;) {
    const length = readU32(reply, at);
    if (length < MESSAGE_HEADER_SIZE) break;
    const interrupted = (readU16(reply, at + 6) & NLM_F_DUMP_INTR) !== 0;
    if (interrupted && readU16(reply, at + 4) !== NLMSG_ERROR) found.add(readU32(reply, at + 8));
    at += align4(length);
  }
  return found;
}

/** Returns the error for a refused request. `operation` is its name in the kernel's header. */
export function refusal(operation: string, { errno, text }: KernelAnswer): NetlinkError {
  return new NetlinkError({ kind: 'kernel', operation, errno, text });
}

// struct nlmsgerr: an int, the request's header and, without NLM_F_CAPPED, the request's rest. NLMSG_DONE: an int.
function attributesStart({ type, flags, payload }: NetlinkMessage): number {
  if (type === NLMSG_DONE) return 4;
  if (payload.length < 4 + MESSAGE_HEADER_SIZE) throw malformed('an NLMSG_ERROR without the request header');
  const requestLength = (flags & NLM_F_CAPPED) === 0 ? readU32(payload, 4) : MESSAGE_HEADER_SIZE;
  return 4 + Math.max(MESSAGE_HEADER_SIZE, requestLength + (-requestLength & 3));
}

function readAttributes(payload: Uint8Array, start: number): Pick<KernelAnswer, 'text' | 'offset'> {
  let text: string | undefined;
  let offset: number | undefined;
  if (start > payload.length) throw malformed('an NLMSG_ERROR shorter than the request in it');
  for (let at = start; payload.length - at >= ATTRIBUTE_HEADER_SIZE;) {
    const length = readU16(payload, at);
    if (length < ATTRIBUTE_HEADER_SIZE || length > payload.length - at) {
      throw malformed(`attribute length ${length} with ${payload.length - at} bytes left`);
    }
    const type = readU16(payload, at + 2) & NLA_TYPE_MASK;
    const value = at + ATTRIBUTE_HEADER_SIZE;
    if (type === NLMSGERR_ATTR_MSG) text = readText(payload, value, at + length);
    if (type === NLMSGERR_ATTR_OFFS && length >= value - at + 4) offset = readU32(payload, value);
    at += align4(length);
  }
  return { text, offset };
}
