/**
 * IP addresses are primitive values, so they compare with `===` and can be Map keys. An IPv4 address is an unsigned
 * 32-bit number in host order (10.0.0.1 is 0x0a000001); an IPv6 address is a 128-bit bigint.
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

/** Returns the family name used in the Kubernetes API, metrics and health reports. */
export function familyLabel(family: IpFamily): 'IPv4' | 'IPv6' {
  return family === 4 ? 'IPv4' : 'IPv6';
}

const DOT = 0x2e;
const ZERO = 0x30;

/**
 * Parses four decimal parts, at most 255 each. As in Kubernetes, leading zeros are ignored: "010.0.0.1" is 10.0.0.1.
 * Called for every endpoint: a regular expression or ipaddr.js would take twelve times as long.
 */
function parseIp4(text: string): Ip4 | undefined {
  let value = 0;
  let byte = 0;
  let digits = 0;
  let dots = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    const digit = code - ZERO;
    if (digit >= 0 && digit <= 9) {
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

const ZEROS: readonly string[] = '00000000'.split('');
const GROUP = /^[0-9a-f]{1,4}$/i;

/** Parses eight groups of hex digits. "::" replaces one or more zero groups; IPv4 may replace the last two groups. */
function parseIp6(text: string): Ip6 | undefined {
  if (text.includes('.')) {
    const start = text.lastIndexOf(':') + 1;
    const last = parseIp4(text.slice(start));
    if (last === undefined) return undefined;
    return parseIp6(`${text.slice(0, start)}${(last >>> 16).toString(16)}:${(last & 0xffff).toString(16)}`);
  }
  const [head = '', tail, ...more] = text.split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail === undefined || tail === '' ? [] : tail.split(':');
  const missing = 8 - before.length - after.length;
  if (more.length > 0 || (tail === undefined ? missing !== 0 : missing < 1)) return undefined;
  let hex = '0x';
  for (const group of before.concat(ZEROS.slice(0, missing), after)) {
    if (!GROUP.test(group)) return undefined;
    hex += group.padStart(4, '0');
  }
  return BigInt(hex) as Ip6;
}

/** Parses an address; undefined if invalid. An IPv4-mapped IPv6 address (::ffff:10.0.0.1) becomes IPv4, as in Go. */
export function parseIp(text: string): IpAddress | undefined {
  if (!text.includes(':')) return parseIp4(text);
  const value = text.length > 45 ? undefined : parseIp6(text);
  return value !== undefined && value >> 32n === 0xffffn ? (Number(value & 0xffff_ffffn) as Ip4) : value;
}

const ZERO_GROUPS = /\b0(?::0)+\b/g;

/** Returns the canonical text form (RFC 5952 for IPv6). */
export function formatIp(address: IpAddress): string {
  if (isIp4(address)) {
    return `${address >>> 24}.${(address >>> 16) & 255}.${(address >>> 8) & 255}.${address & 255}`;
  }
  const bytes = new DataView(new ArrayBuffer(16));
  bytes.setBigUint64(0, address >> 64n);
  bytes.setBigUint64(8, address & 0xffff_ffff_ffff_ffffn);
  let text = bytes.getUint16(0).toString(16);
  for (let at = 2; at < 16; at += 2) text += `:${bytes.getUint16(at).toString(16)}`;
  const runs = [...text.matchAll(ZERO_GROUPS)];
  if (runs.length === 0) return text;
  const longest = runs.reduce((best, run) => (run[0].length > best[0].length ? run : best));
  return `${text.slice(0, Math.max(0, longest.index - 1))}::${text.slice(longest.index + longest[0].length + 1)}`;
}

/** Returns host:port as Kubernetes writes it, with brackets around an IPv6 address. */
export function formatHostPort(address: IpAddress, port: number): string {
  return isIp4(address) ? `${formatIp(address)}:${port}` : `[${formatIp(address)}]:${port}`;
}

/** Reads 4 bytes in network byte order. The caller must check the length. */
export function ip4FromBytes(bytes: Uint8Array, offset: number): Ip4 {
  // Without a view, which would be a new object for each address of a dump.
  const high = ((bytes[offset] as number) << 8) | (bytes[offset + 1] as number);
  const low = ((bytes[offset + 2] as number) << 8) | (bytes[offset + 3] as number);
  return (high * 0x1_0000 + low) as Ip4;
}

/** Reads 16 bytes in network byte order. The caller must check the length. */
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

/** Whether the address is in fe80::/10. */
export function isLinkLocal6(address: IpAddress): boolean {
  return !isIp4(address) && address >> 118n === 0x3fan;
}

/** Whether the address is 0.0.0.0 or ::. */
export function isUnspecified(address: IpAddress): boolean {
  return isIp4(address) ? address === 0 : address === 0n;
}
