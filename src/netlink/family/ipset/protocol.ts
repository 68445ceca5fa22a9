import { decode } from '../../codec/decode.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { u8 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { NETFILTER_HEADER_SIZE, readNetfilterFamily } from '../../codec/netfilter-message.ts';
import { optional, required, table } from '../../codec/table.ts';
import { IPSET_COMMAND, beginIpset } from './command.ts';

/** linux/netfilter/ipset/ip_set.h: the newest and oldest supported versions. Kernels before 4.20 support only 6. */
export const IPSET_PROTOCOL = 7;
export const IPSET_PROTOCOL_MIN = 6;

const PROTOCOL = table({
  newest: required('IPSET_ATTR_PROTOCOL', 1, u8),
  oldest: optional('IPSET_ATTR_PROTOCOL_MIN', 10, u8),
});

/** Writes a request for the protocol versions that the kernel supports. `chooseProtocol` decodes the reply. */
export function getProtocol(writer: MessageWriter): number {
  beginIpset(writer, IPSET_COMMAND.protocol, { protocol: IPSET_PROTOCOL });
  return writer.end();
}

/** Returns the newest version that both sides support, for all other commands. Throws DecodeError if there is none. */
export function chooseProtocol(payload: Uint8Array): number {
  readNetfilterFamily(payload);
  const { newest, oldest } = decode(PROTOCOL, payload, NETFILTER_HEADER_SIZE);
  const version = Math.min(newest, IPSET_PROTOCOL);
  if (version < IPSET_PROTOCOL_MIN || version < (oldest ?? 0)) {
    throw new DecodeError('IPSET_ATTR_PROTOCOL', NETFILTER_HEADER_SIZE, `version ${newest} is not supported`);
  }
  return version;
}
