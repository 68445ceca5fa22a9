import ipaddr from 'ipaddr.js';
import { type IpAddress, ip4FromBytes, ip6FromBytes } from './ip.ts';

/** Length of the longest text: eight groups, the last two of them as IPv4. */
const MAX_LENGTH = 45;

/**
 * Parses an address that a person or the API wrote, with ipaddr.js. Accepts the same texts as parseIp(), which is for
 * every endpoint. What ipaddr.js alone reads otherwise: a leading zero as octal, "::10.0.0.1" as IPv4, zones, hexadecimal
 * and fewer parts of IPv4.
 */
export function readIp(text: string): IpAddress | undefined {
  const start = text.lastIndexOf(':') + 1;
  const head = text.slice(0, start);
  const last = text.slice(start);
  let plain = text;
  if (start === 0 || last.includes('.')) {
    const decimal = last.replace(/(?<=^|\.)0+(?=\d)/g, '');
    if (!ipaddr.IPv4.isValidFourPartDecimal(decimal)) return undefined;
    plain = `${head === '::' ? '0::' : head}${decimal}`;
  }
  if (text.length > MAX_LENGTH || text.includes('%') || !ipaddr.isValid(plain)) return undefined;
  const bytes = Uint8Array.from(ipaddr.process(plain).toByteArray());
  return bytes.length === 4 ? ip4FromBytes(bytes, 0) : ip6FromBytes(bytes, 0);
}
