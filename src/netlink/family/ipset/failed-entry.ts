import { readBe32 } from '../../codec/bytes.ts';
import { findPayload, payloadEnd } from '../../codec/decode.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { MESSAGE_HEADER_SIZE } from '../../codec/flags.ts';
import { NETFILTER_HEADER_SIZE } from '../../codec/netfilter-message.ts';

/** linux/netfilter/ipset/ip_set.h. */
const IPSET_ATTR_LINENO = 9;
/** struct nlmsgerr (linux/netlink.h): an int, the header of the request; then its own header and attributes. */
const ATTRIBUTES = 4 + MESSAGE_HEADER_SIZE + NETFILTER_HEADER_SIZE;

/**
 * The index, in the array given to addEntries or deleteEntries, of the entry at which the kernel stopped. `payload` is that of
 * the NLMSG_ERROR. The kernel puts the request into it even where NETLINK_CAP_ACK is set, with the line of the failing entry
 * (net/netfilter/ipset/ip_set_core.c: call_ad). undefined: the message failed as a whole, before any entry (no such set).
 * Throws DecodeError.
 */
export function decodeFailedEntry(payload: Uint8Array): number | undefined {
  if (payload.length <= ATTRIBUTES) return undefined;
  const start = findPayload(payload, ATTRIBUTES, payload.length, IPSET_ATTR_LINENO);
  if (start < 0) return undefined;
  if (payloadEnd(payload, start) - start !== 4) throw new DecodeError('IPSET_ATTR_LINENO', start, 'not 4 bytes');
  const line = readBe32(payload, start);
  return line === 0 ? undefined : line - 1;
}
