import { decode, type Kind, optional, required, table, traced } from '../../codec/attribute-table.ts';
import { raw, u32, u64 } from '../../codec/kind.ts';
import { readNests } from './message.ts';

/** Counters since the object was created. Exact up to 2^53 (8 PiB). */
export interface IpvsStats {
  readonly connections: number;
  readonly incomingPackets: number;
  readonly outgoingPackets: number;
  readonly incomingBytes: number;
  readonly outgoingBytes: number;
}

// IPVS_SVC_ATTR_STATS has 32-bit packets and rates but 64-bit bytes; in IPVS_SVC_ATTR_STATS64 all have 64 bits.
function statsTable(count: Kind<number>) {
  return table({
    connections: required('IPVS_STATS_ATTR_CONNS', 1, count),
    incomingPackets: required('IPVS_STATS_ATTR_INPKTS', 2, count),
    outgoingPackets: required('IPVS_STATS_ATTR_OUTPKTS', 3, count),
    incomingBytes: required('IPVS_STATS_ATTR_INBYTES', 4, u64),
    outgoingBytes: required('IPVS_STATS_ATTR_OUTBYTES', 5, u64),
    connectionRate: traced('IPVS_STATS_ATTR_CPS', 6, count),
    incomingPacketRate: traced('IPVS_STATS_ATTR_INPPS', 7, count),
    outgoingPacketRate: traced('IPVS_STATS_ATTR_OUTPPS', 8, count),
    incomingByteRate: traced('IPVS_STATS_ATTR_INBPS', 9, count),
    outgoingByteRate: traced('IPVS_STATS_ATTR_OUTBPS', 10, count),
  });
}

export const STATS = statsTable(u32);
export const STATS64 = statsTable(u64);

/** linux/ip_vs.h: IPVS_DEST_ATTR_STATS and _STATS64 have the same numbers. Only one of the two is decoded. */
const COUNTERS = table({
  stats: optional('IPVS_SVC_ATTR_STATS', 10, raw),
  stats64: optional('IPVS_SVC_ATTR_STATS64', 12, raw),
});

/** Returns the counters in a dump message of a virtual server or destination, if any. Throws DecodeError. */
export function decodeStats(payload: Uint8Array): IpvsStats | undefined {
  const { service, destination } = readNests(payload);
  // A destination dump message may also contain its virtual server; the destination's counters take precedence.
  const nest = destination ?? service;
  if (nest === undefined) return undefined;
  const { stats, stats64 } = decode(COUNTERS, nest);
  if (stats64 !== undefined) return decode(STATS64, stats64);
  return stats === undefined ? undefined : decode(STATS, stats);
}
