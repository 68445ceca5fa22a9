import { readText, readU16, readU32 } from './codec/bytes.ts';
import { ATTRIBUTE_HEADER_SIZE, MESSAGE_HEADER_SIZE, NLA_TYPE_MASK, NLM_F_DUMP_INTR, align4 } from './codec/flags.ts';
import { NetlinkError, malformed } from './error.ts';

/** Types of the messages that belong to netlink itself. linux/netlink.h: NLMSG_*. */
export const NLMSG_NOOP = 1;
export const NLMSG_ERROR = 2;
export const NLMSG_DONE = 3;
export const NLMSG_OVERRUN = 4;

/** The request in an error is cut to its header; attributes with text follow it. linux/netlink.h: NLM_F_CAPPED, NLM_F_ACK_TLVS. */
const NLM_F_CAPPED = 0x100;
const NLM_F_ACK_TLVS = 0x200;
/** linux/netlink.h: enum nlmsgerr_attrs. */
const NLMSGERR_ATTR_MSG = 1;
const NLMSGERR_ATTR_OFFS = 2;

/** One message of a reply. struct nlmsghdr (linux/netlink.h), host byte order. */
export interface NetlinkMessage {
  readonly type: number;
  /** NLM_F_*. */
  readonly flags: number;
  /** Of the request that it answers. */
  readonly sequence: number;
  /** What follows the header, no byte more: a view into the reply. */
  readonly payload: Uint8Array;
}

/** The kernel's verdict on one request. */
export interface KernelAnswer {
  /** Positive; 0: success. */
  readonly errno: number;
  readonly sequence: number;
  /** The kernel's own words, a warning where errno is 0. NLMSGERR_ATTR_MSG. */
  readonly text: string | undefined;
  /** Bytes from the start of the request's header to what the kernel objects to. NLMSGERR_ATTR_OFFS. */
  readonly offset: number | undefined;
}

/** The messages of a reply, in order. A length that cannot be true throws a NetlinkError of kind `malformed`. */
export function* messages(reply: Uint8Array): Generator<NetlinkMessage, void, undefined> {
  let at = 0;
  while (at < reply.length) {
    const left = reply.length - at;
    if (left < MESSAGE_HEADER_SIZE) throw malformed(`${left} bytes where a message header is due`);
    const length = readU32(reply, at);
    const sequence = readU32(reply, at + 8);
    if (length < MESSAGE_HEADER_SIZE || length > left) {
      throw malformed(`a message of ${length} bytes where ${left} are left`, sequence);
    }
    yield {
      type: readU16(reply, at + 4),
      flags: readU16(reply, at + 6),
      sequence,
      payload: reply.subarray(at + MESSAGE_HEADER_SIZE, at + length),
    };
    at += align4(length);
  }
}

/**
 * The verdict in an NLMSG_ERROR (struct nlmsgerr) or NLMSG_DONE (an int), undefined for any other message. A DONE
 * without payload is a success: older families send it so.
 */
export function answerOf(message: NetlinkMessage): KernelAnswer | undefined {
  const { type, flags, sequence, payload } = message;
  if (type !== NLMSG_ERROR && type !== NLMSG_DONE) return undefined;
  if (payload.length < 4) {
    if (type === NLMSG_ERROR || payload.length > 0) throw malformed('an answer too short for its errno', sequence);
    return { errno: 0, sequence, text: undefined, offset: undefined };
  }
  const code = readU32(payload, 0) | 0;
  // The end of a dump may carry a count in place of 0; errors are negative always.
  if (code > 0 && type === NLMSG_ERROR) throw malformed(`an errno of ${-code}`, sequence);
  const errno = code < 0 ? -code : 0;
  if ((flags & NLM_F_ACK_TLVS) === 0) return { errno, sequence, text: undefined, offset: undefined };
  return { errno, sequence, ...readAttributes(payload, attributesStart(message), sequence) };
}

/** The refusals in a reply by sequence number: what is not in it went through, if the transaction as a whole did. */
export function refusals(reply: Uint8Array): Map<number, KernelAnswer> {
  const found = new Map<number, KernelAnswer>();
  for (const message of messages(reply)) {
    const answer = answerOf(message);
    if (answer !== undefined && answer.errno !== 0) found.set(answer.sequence, answer);
  }
  return found;
}

/** Sequence numbers of the dumps in a reply that a change interrupted (NLM_F_DUMP_INTR): a reason to repeat them. */
export function interruptedDumps(reply: Uint8Array): Set<number> {
  const found = new Set<number>();
  // Headers alone, without an object for each message; where a length lies `messages` will say so.
  for (let at = 0; reply.length - at >= MESSAGE_HEADER_SIZE;) {
    const length = readU32(reply, at);
    if (length < MESSAGE_HEADER_SIZE) break;
    const interrupted = (readU16(reply, at + 6) & NLM_F_DUMP_INTR) !== 0;
    if (interrupted && readU16(reply, at + 4) !== NLMSG_ERROR) found.add(readU32(reply, at + 8));
    at += align4(length);
  }
  return found;
}

/** `operation` is the request's name in the kernel's header, `object` what it was about. */
export function refusal(operation: string, answer: KernelAnswer, object?: string): NetlinkError {
  return new NetlinkError({ kind: 'kernel', operation, object, ...answer });
}

// struct nlmsgerr is an int and the request's header, and without NLM_F_CAPPED the rest of the request; an NLMSG_DONE has
// only the int.
function attributesStart({ type, flags, sequence, payload }: NetlinkMessage): number {
  if (type === NLMSG_DONE) return 4;
  if (payload.length < 4 + MESSAGE_HEADER_SIZE) throw malformed('an error without the header of its request', sequence);
  const requestLength = (flags & NLM_F_CAPPED) === 0 ? readU32(payload, 4) : MESSAGE_HEADER_SIZE;
  return 4 + Math.max(MESSAGE_HEADER_SIZE, requestLength + (-requestLength & 3));
}

function readAttributes(payload: Uint8Array, start: number, sequence: number): Pick<KernelAnswer, 'text' | 'offset'> {
  let text: string | undefined;
  let offset: number | undefined;
  if (start > payload.length) throw malformed('an error shorter than the request it holds', sequence);
  for (let at = start; payload.length - at >= ATTRIBUTE_HEADER_SIZE;) {
    const length = readU16(payload, at);
    if (length < ATTRIBUTE_HEADER_SIZE || length > payload.length - at) {
      throw malformed(`an attribute of ${length} bytes where ${payload.length - at} are left`, sequence);
    }
    const type = readU16(payload, at + 2) & NLA_TYPE_MASK;
    const value = at + ATTRIBUTE_HEADER_SIZE;
    if (type === NLMSGERR_ATTR_MSG) text = readText(payload, value, at + length);
    if (type === NLMSGERR_ATTR_OFFS && length >= value - at + 4) offset = readU32(payload, value);
    at += align4(length);
  }
  return { text, offset };
}
