import { type IpAddress, type IpFamily, formatIp, ip4FromBytes, ip6FromBytes } from '../../base/ip.ts';
import { readBe16, readBe32, readText, readU16, readU32 } from './bytes.ts';
import { DecodeError } from './decode-error.ts';
import { NLA_F_NET_BYTEORDER } from './flags.ts';
import type { Kind } from './attribute-table.ts';

function scalar(size: number, write: Kind<number>['write'], read: Kind<number>['read']): Kind<number> {
  return { size, flags: 0, write, read };
}

export const u8 = scalar(
  1,
  (writer, value) => writer.u8(value),
  (bytes, start) => bytes[start] as number,
);

/** Host byte order. */
export const u16 = scalar(2, (writer, value) => writer.u16(value), readU16);

/** Host byte order. */
export const u32 = scalar(4, (writer, value) => writer.u32(value), readU32);

/** Host byte order. Exact up to 2^53. */
export const u64: Kind<number> = {
  size: 8,
  flags: 0,
  write: (writer, value) => {
    writer.u32(value);
    writer.u32(value / 2 ** 32);
  },
  read: (bytes, start) => readU32(bytes, start + 4) * 2 ** 32 + readU32(bytes, start),
};

/** Network byte order. */
export const be16 = scalar(2, (writer, value) => writer.be16(value), readBe16);

/** Network byte order. */
export const be32 = scalar(4, (writer, value) => writer.be32(value), readBe32);

/** Network byte order. Exact up to 2^53. */
export const be64: Kind<number> = {
  size: 8,
  flags: 0,
  write: (writer, value) => {
    writer.be32(Math.floor(value / 2 ** 32));
    writer.be32(value % 2 ** 32);
  },
  read: (bytes, start) => readBe32(bytes, start) * 2 ** 32 + readBe32(bytes, start + 4),
};

/** Text, written with a terminating NUL and read up to the first NUL or the end. */
export const text: Kind<string> = {
  size: undefined,
  flags: 0,
  write: (writer, value) => writer.text(value),
  read: readText,
};

/** Raw bytes. Reading returns a view into the reply, not a copy. */
export const raw: Kind<Uint8Array> = {
  size: undefined,
  flags: 0,
  write: (writer, value) => writer.raw(value),
  read: (bytes, start, end) => bytes.subarray(start, end),
};

/** Raw bytes. Reading returns a copy, which stays valid when the reply is gone. */
export const copied: Kind<Uint8Array> = { ...raw, read: (bytes, start, end) => bytes.slice(start, end) };

/** 4 or 16 bytes in network order. */
export const address: Kind<IpAddress> = {
  size: undefined,
  flags: 0,
  write: (writer, value) => writer.address(value),
  read: (bytes, start, end) => {
    if (end - start === 4) return ip4FromBytes(bytes, start);
    if (end - start === 16) return ip6FromBytes(bytes, start);
    throw new DecodeError('address', start, `${end - start} bytes instead of 4 or 16`);
  },
  show: formatIp,
};

/** union nf_inet_addr (linux/netfilter.h): always 16 bytes; an IPv4 address is in the first 4. */
export function inetAddress(family: IpFamily): Kind<IpAddress> {
  return {
    size: 16,
    flags: 0,
    write: (writer, value) => {
      writer.address(value);
      if (family === 4) writer.zeros(12);
    },
    read: family === 4 ? ip4FromBytes : ip6FromBytes,
    show: formatIp,
  };
}

/** Returns the kind with NLA_F_NET_BYTEORDER set, which ipset requires. */
export function marked<T>(kind: Kind<T>): Kind<T> {
  return { ...kind, flags: kind.flags | NLA_F_NET_BYTEORDER };
}
