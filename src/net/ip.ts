import ipaddr from 'ipaddr.js';

/**
 * IP addresses as primitives, so that they compare with `===`, serve as Map keys and cost nothing to copy:
 * IPv4 is a number (32 bits, unsigned, host order: 10.0.0.1 is 0x0a000001), IPv6 a bigint (128 bits).
 */
export type Ip4 = number & { readonly __brand: 'Ip4' };
export type Ip6 = bigint & { readonly __brand: 'Ip6' };
export type IpAddress = Ip4 | Ip6;

export type IpFamily = 4 | 6;
export const IP_FAMILIES: readonly IpFamily[] = [4, 6];

export function isIp4(address: IpAddress): address is Ip4 {
  return typeof address === 'number';
}

export function familyOf(address: IpAddress): IpFamily {
  return isIp4(address) ? 4 : 6;
}

/** How metrics and health reports name a family. */
export function familyLabel(family: IpFamily): 'IPv4' | 'IPv6' {
  return family === 4 ? 'IPv4' : 'IPv6';
}

const DOT = 0x2e;
const ZERO = 0x30;

/**
 * Four parts of one to four digits, none above 255. Kubernetes tolerates leading zeros ("010.0.0.1" is 10.0.0.1), and never means
 * octal. By hand, because there is one for each endpoint and a regular expression makes an array and five strings of it.
 */
function parseIp4(text: string): Ip4 | undefined {
  let value = 0;
  let byte = 0;
  let digits = 0;
  let dots = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    const digit = code - ZERO;
    if (digit >= 0 && digit <= 9 && digits < 4) {
      byte = byte * 10 + digit;
      digits += 1;
    } else if (code === DOT && digits > 0 && byte <= 255 && dots < 3) {
      value = value * 256 + byte;
      dots += 1;
      byte = 0;
      digits = 0;
    } else {
      return undefined;
    }
  }
  return dots === 3 && digits > 0 && byte <= 255 ? ((value * 256 + byte) as Ip4) : undefined;
}

const COLON = 0x3a;
const GROUPS = 8;

/**
 * Eight groups of one to four hexadecimal digits. "::" stands for at least one group of zeros, and an IPv4 address may stand for the last
 * two groups. By hand, as parseIp4.
 */
function parseIp6(text: string): Ip6 | undefined {
  const bytes = new Uint8Array(16);
  let groups = 0;
  /** How many groups stand before the "::". */
  let gap = text.startsWith('::') ? 0 : -1;
  for (let at = gap === 0 ? 2 : 0; at < text.length; at++) {
    const start = at;
    let value = 0;
    for (let digit = 0; (digit = hexDigit(text.charCodeAt(at))) >= 0; at++) value = value * 16 + digit;
    if (text.charCodeAt(at) === DOT) {
      const last = parseIp4(text.slice(start));
      if (last === undefined || groups > GROUPS - 2) return undefined;
      writeIp(last, bytes, 2 * groups);
      groups += 2;
      break;
    }
    if (at === start || at > start + 4 || groups === GROUPS) return undefined;
    bytes[2 * groups] = value >>> 8;
    bytes[2 * groups + 1] = value;
    groups += 1;
    if (at === text.length) break;
    if (text.charCodeAt(at) !== COLON || at + 1 === text.length) return undefined;
    if (text.charCodeAt(at + 1) !== COLON) continue;
    if (gap >= 0) return undefined;
    gap = groups;
    at += 1;
  }
  if (gap < 0 ? groups < GROUPS : groups === GROUPS) return undefined;
  if (gap >= 0) {
    const end = 16 - 2 * (groups - gap);
    bytes.copyWithin(end, 2 * gap, 2 * groups).fill(0, 2 * gap, end);
  }
  return ip6FromBytes(bytes, 0);
}

/** -1 where there is none, as behind the end of a text. */
function hexDigit(code: number): number {
  if (code >= ZERO && code <= ZERO + 9) return code - ZERO;
  // To lower case.
  const letter = (code | 0x20) - 0x61;
  return letter >= 0 && letter < 6 ? letter + 10 : -1;
}

/** Reads an address in text form; undefined when it is none. IPv4-mapped IPv6 (::ffff:10.0.0.1) reads as IPv4, as in Go. */
export function parseIp(text: string): IpAddress | undefined {
  if (!text.includes(':')) return parseIp4(text);
  const value = text.length > 45 ? undefined : parseIp6(text);
  return value !== undefined && value >> 32n === 0xffffn ? (Number(value & 0xffff_ffffn) as Ip4) : value;
}

/** The canonical text form (RFC 5952 for IPv6). */
export function formatIp(address: IpAddress): string {
  if (isIp4(address)) {
    return `${address >>> 24}.${(address >>> 16) & 255}.${(address >>> 8) & 255}.${address & 255}`;
  }
  const bytes = new Uint8Array(16);
  writeIp(address, bytes, 0);
  return new ipaddr.IPv6(Array.from(bytes)).toRFC5952String();
}

/** host:port as Kubernetes writes it, with brackets around IPv6. */
export function formatHostPort(address: IpAddress, port: number): string {
  return isIp4(address) ? `${formatIp(address)}:${port}` : `[${formatIp(address)}]:${port}`;
}

/** Bytes that an address takes on the wire. */
export function ipLength(family: IpFamily): 4 | 16 {
  return family === 4 ? 4 : 16;
}

/** Writes the address in network byte order; returns the offset behind it. */
export function writeIp(address: IpAddress, target: Uint8Array, offset: number): number {
  const view = new DataView(target.buffer, target.byteOffset, target.byteLength);
  if (isIp4(address)) {
    view.setUint32(offset, address);
    return offset + 4;
  }
  view.setBigUint64(offset, address >> 64n);
  view.setBigUint64(offset + 8, address & 0xffff_ffff_ffff_ffffn);
  return offset + 16;
}

/** Reads 4 bytes in network byte order. The caller has checked the length. */
export function ip4FromBytes(bytes: Uint8Array, offset: number): Ip4 {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(offset) as Ip4;
}

/** Reads 16 bytes in network byte order. The caller has checked the length. */
export function ip6FromBytes(bytes: Uint8Array, offset: number): Ip6 {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return ((view.getBigUint64(offset) << 64n) | view.getBigUint64(offset + 8)) as Ip6;
}

/** Orders IPv4 before IPv6, then by value. */
export function compareIp(a: IpAddress, b: IpAddress): number {
  if (typeof a !== typeof b) return isIp4(a) ? -1 : 1;
  return a < b ? -1 : a > b ? 1 : 0;
}

export function isLoopback(address: IpAddress): boolean {
  return isIp4(address) ? address >>> 24 === 127 : address === 1n;
}

/** fe80::/10. */
export function isLinkLocal6(address: IpAddress): boolean {
  return !isIp4(address) && address >> 118n === 0x3fan;
}

/** 0.0.0.0 or ::. */
export function isUnspecified(address: IpAddress): boolean {
  return isIp4(address) ? address === 0 : address === 0n;
}
