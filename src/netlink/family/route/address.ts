import { type IpAddress, type IpFamily, familyOf } from '../../../base/ip.ts';
import { addressFamily, ipFamily } from '../../codec/address-family.ts';
import { readU32 } from '../../codec/bytes.ts';
import { decode } from '../../codec/decode.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { encode } from '../../codec/encode.ts';
import { NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE } from '../../codec/flags.ts';
import { type Kind, address, text, u32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { optional, table } from '../../codec/table.ts';

/** An address of an interface. */
export interface InterfaceAddress {
  /** Index of the interface. */
  readonly index: number;
  readonly address: IpAddress;
  readonly prefix: number;
}

/** An address to add. */
export interface NewInterfaceAddress extends InterfaceAddress {
  /** IFA_F_*; default none. */
  readonly flags?: number;
  /** RT_SCOPE_*: 0 universe (the default), 253 link, 254 host. */
  readonly scope?: number;
  /** Preferred lifetime in seconds. Default: FOREVER; 0 makes the address deprecated. */
  readonly preferredLifetime?: number;
  /** IPv4 label, such as "eth0:1". */
  readonly label?: string;
}

export interface ObservedInterfaceAddress extends InterfaceAddress {
  readonly flags: number;
  readonly scope: number;
  readonly label: string | undefined;
}

/** linux/rtnetlink.h. Replies to a GETADDR have type RTM_NEWADDR. */
export const RTM_NEWADDR = 20;
const RTM_DELADDR = 21;
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
/** The kernel adds no route for the prefix. */
export const IFA_F_NOPREFIXROUTE = 0x200;
/** The kernel's INFINITY_LIFE_TIME: all bits set. */
export const FOREVER = 0xffff_ffff;

/** Size of struct ifaddrmsg { u8 family; u8 prefixlen; u8 flags; u8 scope; u32 index }. linux/if_addr.h. */
const ADDRESS_HEADER_SIZE = 8;

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

function addressTable(family: IpFamily) {
  return table({
    local: optional('IFA_LOCAL', 2, address(family)),
    flags: optional('IFA_FLAGS', 8, u32),
    peer: optional('IFA_ADDRESS', 1, address(family)),
    label: optional('IFA_LABEL', 3, text),
    preferredLifetime: optional('IFA_CACHEINFO', 6, preferredLifetime),
  });
}

export const ADDRESS = { 4: addressTable(4), 6: addressTable(6) };
const OBSERVED = { 4: observedTable(4), 6: observedTable(6) };

function observedTable(family: IpFamily) {
  const { local, flags, peer, label } = ADDRESS[family].rows;
  return table({ local, flags, peer, label });
}

interface AddressHeader {
  readonly family: number;
  readonly prefix: number;
  readonly flags: number;
  readonly scope: number;
  readonly index: number;
}

function beginAddress(writer: MessageWriter, type: number, header: AddressHeader, flags: number): void {
  writer.begin(type, flags);
  writer.u8(header.family);
  writer.u8(header.prefix);
  // The header has 8 bits for flags. If those do not suffice, all flags go into IFA_FLAGS.
  writer.u8(header.flags > 0xff ? 0 : header.flags);
  writer.u8(header.scope);
  writer.u32(header.index);
}

/** Adds an address; EEXIST if the interface has it. With `replace`, updates its flags and lifetimes instead. */
export function addAddress(
  writer: MessageWriter,
  added: NewInterfaceAddress,
  options: { readonly replace?: boolean } = {},
): number {
  const { index, prefix, flags = 0, scope = 0, label } = added;
  const family = familyOf(added.address);
  const verb = NLM_F_CREATE | (options.replace === true ? NLM_F_REPLACE : NLM_F_EXCL);
  beginAddress(writer, RTM_NEWADDR, { family: addressFamily(family), prefix, flags, scope, index }, verb);
  encode(writer, ADDRESS[family], {
    local: added.address,
    flags: flags > 0xff ? flags : undefined,
    peer: added.address,
    label,
    preferredLifetime: added.preferredLifetime,
  });
  return writer.end();
}

/** Deletes an address; EADDRNOTAVAIL if the interface does not have it. */
export function deleteAddress(writer: MessageWriter, deleted: InterfaceAddress): number {
  const { index, prefix } = deleted;
  const family = familyOf(deleted.address);
  beginAddress(writer, RTM_DELADDR, { family: addressFamily(family), prefix, flags: 0, scope: 0, index }, 0);
  encode(writer, ADDRESS[family], { local: deleted.address, peer: deleted.address });
  return writer.end();
}

/**
 * Writes a request for the addresses of one family on all interfaces: the kernel filters a dump by interface only on
 * sockets with NETLINK_GET_STRICT_CHK. `decodeAddress` decodes each reply message. NLM_F_DUMP_INTR: repeat the dump.
 */
export function dumpAddresses(writer: MessageWriter, family: IpFamily): number {
  beginAddress(writer, RTM_GETADDR, { family: addressFamily(family), prefix: 0, flags: 0, scope: 0, index: 0 }, 0);
  return writer.endDump();
}

/** Returns undefined for families other than IPv4 and IPv6. Throws DecodeError. */
export function decodeAddress(payload: Uint8Array): ObservedInterfaceAddress | undefined {
  if (payload.length < ADDRESS_HEADER_SIZE) throw new DecodeError('struct ifaddrmsg', 0, `${payload.length} bytes`);
  const family = ipFamily(payload[0] as number);
  if (family === undefined) return undefined;
  const { local, peer, flags, label } = decode(OBSERVED[family], payload, ADDRESS_HEADER_SIZE);
  // On a point-to-point interface IFA_ADDRESS is the peer's address. IPv6 without a peer has no IFA_LOCAL.
  const own = local ?? peer;
  if (own === undefined) throw new DecodeError('IFA_ADDRESS', ADDRESS_HEADER_SIZE, 'missing');
  return {
    index: readU32(payload, 4),
    address: own,
    prefix: payload[1] as number,
    flags: flags ?? (payload[2] as number),
    scope: payload[3] as number,
    label,
  };
}
