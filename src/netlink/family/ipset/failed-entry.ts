import { readBe32, readU32 } from '../../codec/bytes.ts';
import { findPayload, payloadEnd } from '../../codec/decode.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { MESSAGE_HEADER_SIZE } from '../../codec/flags.ts';
import { NETFILTER_HEADER_SIZE } from '../../codec/netfilter-message.ts';
import type { NetlinkMessage } from '../../message.ts';

/** linux/netfilter/ipset/ip_set.h. */
const IPSET_ATTR_LINENO = 9;
/** linux/netlink.h: the error contains only the request's header. */
const NLM_F_CAPPED = 0x100;
/** struct nlmsgerr (linux/netlink.h): an int, then the request with its header. */
const REQUEST = 4;
const ATTRIBUTES = REQUEST + MESSAGE_HEADER_SIZE + NETFILTER_HEADER_SIZE;

/**
 * Decodes the NLMSG_ERROR for a message of addEntries or deleteEntries. Returns the array index of the entry at which
 * the kernel stopped, or undefined if the message failed before any entry (no such set). The NLMSG_ERROR contains the
 * whole request, regardless of NETLINK_CAP_ACK, with the line number of the failing entry
 * (net/netfilter/ipset/ip_set_core.c: call_ad). Throws DecodeError.
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
