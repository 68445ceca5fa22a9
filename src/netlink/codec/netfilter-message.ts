import { DecodeError } from './decode-error.ts';
import type { MessageWriter } from './message-writer.ts';

/** Size of struct nfgenmsg { u8 family; u8 version; be16 res_id }. linux/netfilter/nfnetlink.h. */
export const NETFILTER_HEADER_SIZE = 4;

/** Begins a message of a netfilter subsystem (NFNL_SUBSYS_*); `family` is an AF_* value. */
export function beginNetfilter(
  writer: MessageWriter,
  subsystem: number,
  command: number,
  family: number,
  flags = 0,
): void {
  writer.begin((subsystem << 8) | command, flags);
  writer.u8(family);
  // NFNETLINK_V0, and a resource id that neither ipset nor ctnetlink uses.
  writer.u8(0);
  writer.u16(0);
}

/** The AF_* value of a reply; the attributes start at NETFILTER_HEADER_SIZE. */
export function readNetfilterFamily(payload: Uint8Array): number {
  const family = payload[0];
  if (family === undefined || payload.length < NETFILTER_HEADER_SIZE) {
    throw new DecodeError('struct nfgenmsg', 0, `${payload.length} bytes`);
  }
  return family;
}
