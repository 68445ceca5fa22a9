import { readU32 } from '../../codec/bytes.ts';
import { decode, table } from '../../codec/attribute-table.ts';
import { MESSAGE_HEADER_SIZE } from '../../codec/flags.ts';
import { NETFILTER } from '../../codec/header.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { NLM_F_CAPPED, type NetlinkMessage } from '../../netlink-message.ts';
import type { IpsetEntry } from './entry.ts';
import { IPSET_COMMAND, IPSET_MESSAGE, beginIpset } from './message.ts';

/** struct nlmsgerr (linux/netlink.h): an int, then the request with its header. */
const REQUEST = 4;
const ATTRIBUTES = REQUEST + MESSAGE_HEADER_SIZE + NETFILTER.size;

const LINE = table({ line: IPSET_MESSAGE.rows.line });

/**
 * Appends one message that adds or deletes entries (at most 64 KiB). Adding an existing entry or deleting a missing one
 * has no effect. The kernel stops at the first entry that it refuses: `decodeFailedEntry` returns its index. The
 * entries before it have taken effect.
 */
export function writeEntries(
  writer: MessageWriter,
  protocol: number,
  verb: 'add' | 'delete',
  name: string,
  entries: readonly IpsetEntry[],
): number {
  // The kernel overwrites line 0 with the line of the failed entry.
  beginIpset(writer, IPSET_COMMAND[verb], { protocol, name, line: 0, entries });
  return writer.end();
}

/**
 * Decodes the NLMSG_ERROR for a message of writeEntries. Returns the array index of the entry at which the kernel
 * stopped, or undefined if the message failed before any entry (no such set). The NLMSG_ERROR contains the whole
 * request, regardless of NETLINK_CAP_ACK (net/netfilter/ipset/ip_set_core.c: call_ad). Throws DecodeError.
 */
export function decodeFailedEntry({ flags, payload }: Pick<NetlinkMessage, 'flags' | 'payload'>): number | undefined {
  if ((flags & NLM_F_CAPPED) !== 0 || payload.length < ATTRIBUTES) return undefined;
  const { line = 0 } = decode(LINE, payload, ATTRIBUTES, REQUEST + readU32(payload, REQUEST));
  return line === 0 ? undefined : line - 1;
}
