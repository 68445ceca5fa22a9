import { readBe32, readU32 } from '../../codec/bytes.ts';
import { findPayload, payloadEnd } from '../../codec/decode.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { MESSAGE_HEADER_SIZE } from '../../codec/flags.ts';
import { NETFILTER_HEADER_SIZE } from '../../codec/netfilter-message.ts';
import type { NetlinkMessage } from '../../message.ts';

/** linux/netfilter/ipset/ip_set.h. */
const IPSET_ATTR_LINENO = 9;
/** linux/netlink.h: the request in the error is cut to its header. */
const NLM_F_CAPPED = 0x100;
/** struct nlmsgerr (linux/netlink.h): an int, then the request with its header. */
const REQUEST = 4;
const ATTRIBUTES = REQUEST + MESSAGE_HEADER_SIZE + NETFILTER_HEADER_SIZE;

/**
 * The index, in the array given to addEntries or deleteEntries, of the entry at which the kernel stopped, from the NLMSG_ERROR
 * that answers the message. The kernel puts the whole request into it, NETLINK_CAP_ACK or not, with the line of the failing
 * entry (net/netfilter/ipset/ip_set_core.c: call_ad). undefined: the message failed as a whole, before any entry (no such
 * set). Throws DecodeError.
 */
export function decodeFailedEntry({ flags, payload }: Pick<NetlinkMessage, 'flags' | 'payload'>): number | undefined {
  if ((flags & NLM_F_CAPPED) !== 0 || payload.length < ATTRIBUTES) return undefined;
  const end = REQUEST + readU32(payload, REQUEST);
  const start = findPayload(payload, ATTRIBUTES, end, IPSET_ATTR_LINENO);
  if (start < 0) return undefined;
  if (payloadEnd(payload, start) - start !== 4) throw new DecodeError('IPSET_ATTR_LINENO', start, 'not 4 bytes');
  const line = readBe32(payload, start);
  return line === 0 ? undefined : line - 1;
}
