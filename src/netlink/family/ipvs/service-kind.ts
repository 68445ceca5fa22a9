import type { IpFamily } from '../../../base/ip.ts';
import { PROTOCOL_NUMBER, type Protocol, protocolFromNumber } from '../../../base/protocol.ts';
import { readBe32, readU16, readU32 } from '../../codec/bytes.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { u32 } from '../../codec/kind.ts';
import type { Kind } from '../../codec/attribute-table.ts';

/** A u16 with an IPPROTO_* value. */
export const protocol: Kind<Protocol> = {
  size: 2,
  flags: 0,
  write: (writer, value) => writer.u16(PROTOCOL_NUMBER[value]),
  read: (bytes, start) => {
    const name = protocolFromNumber(readU16(bytes, start));
    if (name === undefined) throw new DecodeError('IPVS_SVC_ATTR_PROTOCOL', start, 'not TCP, UDP or SCTP');
    return name;
  },
};

/** struct ip_vs_flags { u32 flags; u32 mask } (linux/ip_vs.h). The mask has all bits set: all flags are replaced. */
export const serviceFlags: Kind<number> = {
  size: 8,
  flags: 0,
  write: (writer, value) => {
    writer.u32(value);
    writer.u32(0xffff_ffff);
  },
  read: readU32,
};

/**
 * Persistence granularity as a prefix length. The kernel uses a mask in network order for IPv4, but the prefix length
 * in host order for IPv6 (net/netfilter/ipvs/ip_vs_ctl.c: ip_vs_add_service).
 */
export function persistencePrefix(family: IpFamily): Kind<number> {
  if (family === 6) return u32;
  return {
    size: 4,
    flags: 0,
    write: (writer, value) => writer.be32(value === 0 ? 0 : (0xffff_ffff << (32 - value)) >>> 0),
    // A non-contiguous mask has no prefix length. Its leading ones are the closest value, and differ from what we set.
    read: (bytes, start) => Math.clz32(~readBe32(bytes, start)),
  };
}
