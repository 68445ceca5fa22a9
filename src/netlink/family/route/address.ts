import { type IpAddress, type IpFamily, familyOf } from '../../../base/ip.ts';
import { addressFamily, ipFamily } from '../../codec/address-family.ts';
import { readU32 } from '../../codec/bytes.ts';
import { decode, encode, type Kind, optional, table, traced } from '../../codec/attribute-table.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { NLM_F_CREATE, NLM_F_REPLACE } from '../../codec/flags.ts';
import { beginMessage, header, readHeader } from '../../codec/header.ts';
import { address, text, u32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';

export interface InterfaceAddress {
  /** Index of the interface. */
  readonly index: number;
  readonly address: IpAddress;
  readonly prefix: number;
}

export interface NewInterfaceAddress extends InterfaceAddress {
  /** IFA_F_* below 0x100; default none. */
  readonly flags?: number;
  /** Preferred lifetime in seconds. Default: unlimited; 0 makes the address deprecated. */
  readonly preferredLifetime?: number;
}

export interface ObservedInterfaceAddress extends InterfaceAddress {
  readonly flags: number;
}

/** linux/rtnetlink.h. Replies to a GETADDR have type RTM_NEWADDR. */
export const RTM_NEWADDR = 20;
export const RTM_DELADDR = 21;
const RTM_GETADDR = 22;

/** linux/if_addr.h: no duplicate address detection (IPv6), usable at once. */
export const IFA_F_NODAD = 0x02;
/** Duplicate address detection failed: another node has the address (IPv6). */
export const IFA_F_DADFAILED = 0x08;
export const IFA_F_DEPRECATED = 0x20;
/** The address has no lifetime limit. */
export const IFA_F_PERMANENT = 0x80;
/** Duplicate address detection is running (IPv6); the address is not usable yet. */
export const IFA_F_TENTATIVE = 0x40;
/** The kernel's INFINITY_LIFE_TIME: all bits set. */
const FOREVER = 0xffff_ffff;

/** linux/if_addr.h. */
export const ADDRESS_HEADER = header('struct ifaddrmsg', [
  ['ifa_family', 1],
  ['ifa_prefixlen', 1],
  ['ifa_flags', 1],
  ['ifa_scope', 1],
  ['ifa_index', 4],
]);

/** The first field of struct ifa_cacheinfo { u32 preferred; u32 valid; u32 cstamp; u32 tstamp }. linux/if_addr.h. */
const preferredLifetime: Kind<number> = {
  size: 16,
  flags: 0,
  write: (writer, value) => {
    writer.u32(value);
    writer.u32(FOREVER);
    writer.zeros(8);
  },
  read: readU32,
};

export const ADDRESS = table({
  local: optional('IFA_LOCAL', 2, address),
  peer: optional('IFA_ADDRESS', 1, address),
  label: traced('IFA_LABEL', 3, text),
  preferredLifetime: optional('IFA_CACHEINFO', 6, preferredLifetime),
  flags: optional('IFA_FLAGS', 8, u32),
});

function writeAddress(writer: MessageWriter, type: number, written: NewInterfaceAddress, verb: number): number {
  const { index, address: local, prefix, flags = 0 } = written;
  const fields = {
    ifa_family: addressFamily(familyOf(local)),
    ifa_prefixlen: prefix,
    ifa_flags: flags,
    ifa_index: index,
  };
  beginMessage(writer, type, ADDRESS_HEADER, fields, verb);
  encode(writer, ADDRESS, { local, peer: local, preferredLifetime: written.preferredLifetime });
  return writer.end();
}

/** Adds an address, or updates flags and lifetimes of one that the interface has. */
export function setAddress(writer: MessageWriter, added: NewInterfaceAddress): number {
  return writeAddress(writer, RTM_NEWADDR, added, NLM_F_CREATE | NLM_F_REPLACE);
}

/** Deletes an address; EADDRNOTAVAIL if the interface does not have it. */
export function deleteAddress(writer: MessageWriter, deleted: InterfaceAddress): number {
  return writeAddress(writer, RTM_DELADDR, deleted, 0);
}

/**
 * Writes a request for the addresses of one family on all interfaces: the kernel filters a dump by interface only on
 * sockets with NETLINK_GET_STRICT_CHK. `decodeAddress` decodes each reply message. If one of them has NLM_F_DUMP_INTR,
 * the dump must be repeated.
 */
export function dumpAddresses(writer: MessageWriter, family: IpFamily): number {
  beginMessage(writer, RTM_GETADDR, ADDRESS_HEADER, { ifa_family: addressFamily(family) });
  return writer.endDump();
}

/** Returns undefined for families other than IPv4 and IPv6. Throws DecodeError. */
export function decodeAddress(payload: Uint8Array): ObservedInterfaceAddress | undefined {
  const fields = readHeader(ADDRESS_HEADER, payload);
  if (ipFamily(fields.ifa_family) === undefined) return undefined;
  const { local, peer, flags = fields.ifa_flags } = decode(ADDRESS, payload, ADDRESS_HEADER.size);
  // On a point-to-point interface IFA_ADDRESS is the peer's address. IPv6 without a peer has no IFA_LOCAL.
  const own = local ?? peer;
  if (own === undefined) throw new DecodeError('IFA_ADDRESS', ADDRESS_HEADER.size, 'missing');
  return { index: fields.ifa_index, address: own, prefix: fields.ifa_prefixlen, flags };
}
