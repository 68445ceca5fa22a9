import { type IpAddress, type IpFamily, familyOf } from '../../../base/ip.ts';
import { encodeNest } from '../../codec/encode.ts';
import { address, be16, u8 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { nested } from '../../codec/nested.ts';
import { optional, required, table } from '../../codec/table.ts';

/** One direction of a flow. */
export interface Tuple {
  readonly source: IpAddress;
  readonly destination: IpAddress;
  /** IPPROTO_*. */
  readonly protocol: number;
  /** undefined for protocols without ports. */
  readonly sourcePort?: number | undefined;
  readonly destinationPort?: number | undefined;
}

const ENDS = table({
  protocol: required('CTA_PROTO_NUM', 1, u8),
  sourcePort: optional('CTA_PROTO_SRC_PORT', 2, be16),
  destinationPort: optional('CTA_PROTO_DST_PORT', 3, be16),
});

const ADDRESSES = {
  4: table({
    source: required('CTA_IP_V4_SRC', 1, address(4)),
    destination: required('CTA_IP_V4_DST', 2, address(4)),
  }),
  6: table({
    source: required('CTA_IP_V6_SRC', 3, address(6)),
    destination: required('CTA_IP_V6_DST', 4, address(6)),
  }),
};

function tupleTable(family: IpFamily) {
  return table({
    addresses: required('CTA_TUPLE_IP', 1, nested(ADDRESSES[family])),
    ends: required('CTA_TUPLE_PROTO', 2, nested(ENDS)),
  });
}

/** CTA_TUPLE_ORIG and CTA_TUPLE_REPLY by family. linux/netfilter/nfnetlink_conntrack.h. */
export const TUPLE = { 4: tupleTable(4), 6: tupleTable(6) };

/** Appends the tuple as attribute `id`. */
export function encodeTuple(writer: MessageWriter, id: number, tuple: Tuple): void {
  encodeNest(writer, id, TUPLE[familyOf(tuple.source)], { addresses: tuple, ends: tuple });
}
