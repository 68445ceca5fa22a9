import { decode, findPayload, payloadEnd } from '../../codec/decode.ts';
import { GENERIC_HEADER_SIZE, readGenericCommand } from '../../codec/generic-message.ts';
import { type Kind, u32, u64 } from '../../codec/kind.ts';
import { required, table } from '../../codec/table.ts';
import { IPVS_CMD_ATTR_DEST, IPVS_CMD_ATTR_SERVICE } from './command.ts';

/** Counters since the object was created, and rates per second. */
export interface IpvsStats {
  readonly connections: bigint;
  readonly incomingPackets: bigint;
  readonly outgoingPackets: bigint;
  readonly incomingBytes: bigint;
  readonly outgoingBytes: bigint;
  readonly connectionRate: bigint;
  readonly incomingPacketRate: bigint;
  readonly outgoingPacketRate: bigint;
  readonly incomingByteRate: bigint;
  readonly outgoingByteRate: bigint;
}

/** The 32-bit counters of older kernels, as bigint like the 64-bit ones. */
const wide: Kind<bigint> = {
  ...u64,
  size: u32.size,
  read: (bytes, start, end) => BigInt(u32.read(bytes, start, end)),
};

// IPVS_SVC_ATTR_STATS has 32-bit packets and rates but 64-bit bytes; in IPVS_SVC_ATTR_STATS64 all have 64 bits.
function statsTable(narrow: Kind<bigint>) {
  return table({
    connections: required('IPVS_STATS_ATTR_CONNS', 1, narrow),
    incomingPackets: required('IPVS_STATS_ATTR_INPKTS', 2, narrow),
    outgoingPackets: required('IPVS_STATS_ATTR_OUTPKTS', 3, narrow),
    incomingBytes: required('IPVS_STATS_ATTR_INBYTES', 4, u64),
    outgoingBytes: required('IPVS_STATS_ATTR_OUTBYTES', 5, u64),
    connectionRate: required('IPVS_STATS_ATTR_CPS', 6, narrow),
    incomingPacketRate: required('IPVS_STATS_ATTR_INPPS', 7, narrow),
    outgoingPacketRate: required('IPVS_STATS_ATTR_OUTPPS', 8, narrow),
    incomingByteRate: required('IPVS_STATS_ATTR_INBPS', 9, narrow),
    outgoingByteRate: required('IPVS_STATS_ATTR_OUTBPS', 10, narrow),
  });
}

export const STATS = statsTable(wide);
export const STATS64 = statsTable(u64);

/** linux/ip_vs.h: IPVS_SVC_ATTR_STATS and IPVS_DEST_ATTR_STATS are both 10, the 64-bit ones both 12. */
const ATTR_STATS = 10;
const ATTR_STATS64 = 12;

/** Returns the counters in a dump message of a virtual server or destination, if any. Throws DecodeError. */
export function decodeStats(payload: Uint8Array): IpvsStats | undefined {
  readGenericCommand(payload);
  // A destination dump message may also contain its virtual server; the destination's counters take precedence.
  for (const nest of [IPVS_CMD_ATTR_DEST, IPVS_CMD_ATTR_SERVICE]) {
    const start = findPayload(payload, GENERIC_HEADER_SIZE, payload.length, nest);
    if (start < 0) continue;
    const end = payloadEnd(payload, start);
    const at64 = findPayload(payload, start, end, ATTR_STATS64);
    if (at64 >= 0) return decode(STATS64, payload, at64, payloadEnd(payload, at64));
    const at = findPayload(payload, start, end, ATTR_STATS);
    if (at >= 0) return decode(STATS, payload, at, payloadEnd(payload, at));
  }
  return undefined;
}
