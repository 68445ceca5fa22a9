import { type IpAddress, type IpFamily, familyOf } from '../../../base/ip.ts';
import { addressFamily, ipFamily } from '../../codec/address-family.ts';
import {
  decode,
  encode,
  nested,
  type Decoded,
  optional,
  reported,
  required,
  table,
  traced,
} from '../../codec/attribute-table.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { NETFILTER, beginMessage, readHeader } from '../../codec/header.ts';
import { address, be16, be32, u32, u8 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';

/** One direction of a flow. */
export interface Tuple {
  readonly source: IpAddress;
  readonly destination: IpAddress;
  /** IPPROTO_* number. */
  readonly protocol: number;
  /** undefined for protocols without ports. */
  readonly sourcePort?: number | undefined;
  readonly destinationPort?: number | undefined;
}

/** A connection tracking entry. */
export interface TrackedFlow {
  readonly original: Tuple;
  readonly reply: Tuple;
}

/** linux/netfilter/nfnetlink.h. */
const NFNL_SUBSYS_CTNETLINK = 1;
/** linux/netfilter/nfnetlink_conntrack.h: enum cntl_msg_types. Replies to a dump have type IPCTNL_MSG_CT_NEW. */
const IPCTNL_MSG_CT_GET = 1;
const IPCTNL_MSG_CT_DELETE = 2;

const ADDRESSES = table({
  source4: optional('CTA_IP_V4_SRC', 1, address),
  destination4: optional('CTA_IP_V4_DST', 2, address),
  source6: optional('CTA_IP_V6_SRC', 3, address),
  destination6: optional('CTA_IP_V6_DST', 4, address),
});

const ENDS = table({
  protocol: required('CTA_PROTO_NUM', 1, u8),
  sourcePort: optional('CTA_PROTO_SRC_PORT', 2, be16),
  destinationPort: optional('CTA_PROTO_DST_PORT', 3, be16),
});

const TUPLE = table({
  addresses: reported('CTA_TUPLE_IP', 1, nested(ADDRESSES)),
  ends: required('CTA_TUPLE_PROTO', 2, nested(ENDS)),
});

const FILTER = table({
  original: required('CTA_FILTER_ORIG_FLAGS', 1, u32),
  reply: required('CTA_FILTER_REPLY_FLAGS', 2, u32),
});

/** linux/netfilter/nfnetlink_conntrack.h: enum ctattr_type. */
export const FLOW = table({
  original: required('CTA_TUPLE_ORIG', 1, nested(TUPLE)),
  reply: reported('CTA_TUPLE_REPLY', 2, nested(TUPLE)),
  status: traced('CTA_STATUS', 3, be32),
  mark: traced('CTA_MARK', 8, be32),
  id: traced('CTA_ID', 12, be32),
  zone: traced('CTA_ZONE', 18, be16),
  filter: optional('CTA_FILTER', 25, nested(FILTER)),
});

// Since 5.8 the kernel compares those fields of CTA_TUPLE_ORIG whose bits are set in CTA_FILTER_ORIG_FLAGS. The bits are
// 1 << CTA_FILTER_F_CTA_* of net/netfilter/nf_internals.h; no user-space header defines them.
const FILTER_SOURCE = 1 << 0;
const FILTER_PROTOCOL_NUMBER = 1 << 3;

/** Which flows a dump has: those of one protocol (IPPROTO_*), those whose original direction has this source, or all. */
export type FlowFilter = { readonly protocol: number } | { readonly source: IpAddress };

function beginConntrack(writer: MessageWriter, command: number, family: IpFamily): void {
  beginMessage(writer, (NFNL_SUBSYS_CTNETLINK << 8) | command, NETFILTER, { nfgen_family: addressFamily(family) });
}

/**
 * Writes a request for the flows of one family. Kernels before 5.8 ignore the filter, so the caller must check each flow.
 * `decodeFlow` decodes each reply message.
 */
export function dumpFlows(writer: MessageWriter, family: IpFamily, filter?: FlowFilter): number {
  beginConntrack(writer, IPCTNL_MSG_CT_GET, family);
  if (filter === undefined) return writer.endDump();
  if ('protocol' in filter) {
    encode(writer, FLOW, { original: { ends: filter }, filter: { original: FILTER_PROTOCOL_NUMBER, reply: 0 } });
  } else {
    const addresses = family === 4 ? { source4: filter.source } : { source6: filter.source };
    const original = { addresses, ends: { protocol: 0 } };
    encode(writer, FLOW, { original, filter: { original: FILTER_SOURCE, reply: 0 } });
  }
  return writer.endDump();
}

/** Deletes the flow with this original direction; ENOENT if it no longer exists. */
export function deleteFlow(writer: MessageWriter, original: Tuple): number {
  const { source, destination } = original;
  const family = familyOf(source);
  beginConntrack(writer, IPCTNL_MSG_CT_DELETE, family);
  const addresses =
    family === 4 ? { source4: source, destination4: destination } : { source6: source, destination6: destination };
  encode(writer, FLOW, { original: { addresses, ends: original } });
  return writer.end();
}

/** Returns undefined for families other than IPv4 and IPv6. Throws DecodeError. */
export function decodeFlow(payload: Uint8Array): TrackedFlow | undefined {
  if (ipFamily(readHeader(NETFILTER, payload).nfgen_family) === undefined) return undefined;
  const { original, reply } = decode(FLOW, payload, NETFILTER.size);
  return { original: tuple(original), reply: tuple(reply) };
}

function tuple({ addresses, ends }: Decoded<typeof TUPLE.rows>): Tuple {
  const source = addresses.source4 ?? addresses.source6;
  const destination = addresses.destination4 ?? addresses.destination6;
  if (source === undefined || destination === undefined)
    throw new DecodeError('CTA_TUPLE_IP', 0, 'no source or no destination address');
  return { source, destination, ...ends };
}
