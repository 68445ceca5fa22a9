import { endianness } from 'node:os';

// Indexes the bytes without a DataView: a dump has thousands of small messages, and each view would become garbage.
// Callers check the bounds, so every element exists.

/** Host byte order (little-endian, see requireLittleEndian). */
export function readU16(bytes: Uint8Array, at: number): number {
  return (bytes[at] as number) | ((bytes[at + 1] as number) << 8);
}

/** Host byte order (little-endian, see requireLittleEndian). */
export function readU32(bytes: Uint8Array, at: number): number {
  return (readU16(bytes, at) | (readU16(bytes, at + 2) << 16)) >>> 0;
}

/** Network byte order. */
export function readBe16(bytes: Uint8Array, at: number): number {
  return ((bytes[at] as number) << 8) | (bytes[at + 1] as number);
}

/** Network byte order. */
export function readBe32(bytes: Uint8Array, at: number): number {
  return ((readBe16(bytes, at) << 16) | readBe16(bytes, at + 2)) >>> 0;
}

const UTF8 = new TextDecoder();

/** Reads text up to the first NUL or `end`. */
export function readText(bytes: Uint8Array, start: number, end: number): string {
  const payload = bytes.subarray(start, end);
  const nul = payload.indexOf(0);
  return UTF8.decode(nul < 0 ? payload : payload.subarray(0, nul));
}

/** Netlink uses host byte order; this codec supports only little-endian. Call before opening the first socket. */
export function requireLittleEndian(): void {
  if (endianness() !== 'LE') throw new Error('netlink: only little-endian machines (x86-64, arm64) are supported');
}
