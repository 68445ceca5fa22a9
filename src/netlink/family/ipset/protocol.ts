import { decode } from '../../codec/decode.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { u8 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { NETFILTER_HEADER_SIZE, readNetfilterFamily } from '../../codec/netfilter-message.ts';
import { optional, required, table } from '../../codec/table.ts';
import { IPSET_COMMAND, beginIpset } from './command.ts';

/** linux/netfilter/ipset/ip_set.h: the newest version that we speak, and the oldest. Kernels before 4.20 know only 6. */
export const IPSET_PROTOCOL = 7;
export const IPSET_PROTOCOL_MIN = 6;

const PROTOCOL = table({
  newest: required('IPSET_ATTR_PROTOCOL', 1, u8),
  oldest: optional('IPSET_ATTR_PROTOCOL_MIN', 10, u8),
});

/** Asks which versions the kernel speaks. The answer is for `chooseProtocol`. */
export function getProtocol(writer: MessageWriter): number {
  beginIpset(writer, IPSET_COMMAND.protocol, { protocol: IPSET_PROTOCOL });
  return writer.end();
}

/** The newest version that both speak, for every other command; a DecodeError where there is none. */
export function chooseProtocol(payload: Uint8Array): number {
  readNetfilterFamily(payload);
  const { newest, oldest } = decode(PROTOCOL, payload, NETFILTER_HEADER_SIZE);
  const version = Math.min(newest, IPSET_PROTOCOL);
  if (version < IPSET_PROTOCOL_MIN || version < (oldest ?? 0)) {
    throw new DecodeError('IPSET_ATTR_PROTOCOL', NETFILTER_HEADER_SIZE, `version ${newest} is not one that we speak`);
  }
  return version;
}
