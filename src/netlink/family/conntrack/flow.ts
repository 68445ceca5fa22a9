import { type IpFamily, familyOf } from '../../../base/ip.ts';
import { addressFamily, ipFamily } from '../../codec/address-family.ts';
import { decode } from '../../codec/decode.ts';
import { encode, encodeNest } from '../../codec/encode.ts';
import { be16, be32, u32, u8 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { nested } from '../../codec/nested.ts';
import { NETFILTER_HEADER_SIZE, beginNetfilter, readNetfilterFamily } from '../../codec/netfilter-message.ts';
import { constant, fallback, optional, required, table } from '../../codec/table.ts';
import { TUPLE, type Tuple, encodeTuple } from './tuple.ts';

/** Identifies a flow. */
export interface FlowId {
  readonly original: Tuple;
  /** Default 0. */
  readonly zone?: number;
  /** If set, the kernel deletes only this flow, not a later one with the same tuple. */
  readonly id?: number | undefined;
}

/** A connection tracking entry. */
export interface TrackedFlow extends FlowId {
  readonly reply: Tuple;
  readonly zone: number;
  readonly mark: number;
  /** linux/netfilter/nf_conntrack_common.h: IPS_*. */
  readonly status: number;
  readonly id: number | undefined;
}

/** linux/netfilter/nfnetlink.h. */
const NFNL_SUBSYS_CTNETLINK = 1;
/** linux/netfilter/nfnetlink_conntrack.h: enum cntl_msg_types. */
const IPCTNL_MSG_CT_NEW = 0;
const IPCTNL_MSG_CT_GET = 1;
const IPCTNL_MSG_CT_DELETE = 2;
/** Message type of dump replies. */
export const FLOW_MESSAGE = (NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_NEW;

/** linux/netfilter/nfnetlink_conntrack.h: enum ctattr_type. */
const CTA_TUPLE_ORIG = 1;

function flowTable(family: IpFamily) {
  return table({
    original: required('CTA_TUPLE_ORIG', CTA_TUPLE_ORIG, nested(TUPLE[family])),
    reply: required('CTA_TUPLE_REPLY', 2, nested(TUPLE[family])),
    status: fallback('CTA_STATUS', 3, be32, 0),
    mark: fallback('CTA_MARK', 8, be32, 0),
    id: optional('CTA_ID', 12, be32),
    zone: fallback('CTA_ZONE', 18, be16, 0),
  });
}

export const FLOW = { 4: flowTable(4), 6: flowTable(6) };
/** Identifies a flow together with its tuple. Zone 0 is omitted: kernels without zones refuse the attribute. */
const NAME = table({ id: optional('CTA_ID', 12, be32), zone: optional('CTA_ZONE', 18, be16) });

// Since 5.8 the kernel compares those fields of CTA_TUPLE_ORIG whose bits are set in CTA_FILTER_ORIG_FLAGS. The bit is
// 1 << CTA_FILTER_F_CTA_PROTO_NUM of net/netfilter/nf_internals.h; no user-space header defines it.
const FILTER_PROTOCOL_NUMBER = 1 << 3;
const FILTER = table({
  original: constant('CTA_FILTER_ORIG_FLAGS', 1, u32, FILTER_PROTOCOL_NUMBER),
  reply: constant('CTA_FILTER_REPLY_FLAGS', 2, u32, 0),
});
const PROTOCOL_ONLY = table({
  ends: required('CTA_TUPLE_PROTO', 2, nested(table({ protocol: required('CTA_PROTO_NUM', 1, u8) }))),
});
const CTA_FILTER = 25;

function beginConntrack(writer: MessageWriter, command: number, family: IpFamily): void {
  beginNetfilter(writer, NFNL_SUBSYS_CTNETLINK, command, addressFamily(family));
}

/**
 * Writes a request for the flows of one family and protocol (IPPROTO_*). Kernels before 5.8 ignore the protocol, so
 * check the tuples. `decodeFlow` decodes each reply message.
 */
export function dumpFlows(writer: MessageWriter, family: IpFamily, protocol?: number): number {
  beginConntrack(writer, IPCTNL_MSG_CT_GET, family);
  if (protocol !== undefined) {
    encodeNest(writer, CTA_TUPLE_ORIG, PROTOCOL_ONLY, { ends: { protocol } });
    encodeNest(writer, CTA_FILTER, FILTER, {});
  }
  return writer.endDump();
}

/** Deletes one flow; ENOENT if it no longer exists. */
export function deleteFlow(writer: MessageWriter, { original, zone, id }: FlowId): number {
  beginConntrack(writer, IPCTNL_MSG_CT_DELETE, familyOf(original.source));
  encodeTuple(writer, CTA_TUPLE_ORIG, original);
  encode(writer, NAME, { id, zone: zone === 0 ? undefined : zone });
  return writer.end();
}

/** Returns undefined for families other than IPv4 and IPv6. Throws DecodeError. */
export function decodeFlow(payload: Uint8Array): TrackedFlow | undefined {
  const family = ipFamily(readNetfilterFamily(payload));
  if (family === undefined) return undefined;
  const { original, reply, ...flow } = decode(FLOW[family], payload, NETFILTER_HEADER_SIZE);
  return { ...flow, original: tuple(original), reply: tuple(reply) };
}

function tuple({
  addresses,
  ends,
}: {
  addresses: Pick<Tuple, 'source' | 'destination'>;
  ends: Omit<Tuple, 'source' | 'destination'>;
}): Tuple {
  return { ...addresses, ...ends };
}
