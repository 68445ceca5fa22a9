import { decode } from '../../codec/attribute-table.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { NETFILTER } from '../../codec/header.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { IPSET_COMMAND, IPSET_MESSAGE, beginIpset } from './message.ts';

/** Newest and oldest version that we support (linux/netfilter/ipset/ip_set.h). Kernels before 4.20 have only 6. */
const IPSET_PROTOCOL = 7;
const IPSET_PROTOCOL_MIN = 6;

/** Writes a request for the protocol versions that the kernel supports. `chooseProtocol` decodes the reply. */
export function getProtocol(writer: MessageWriter): number {
  beginIpset(writer, IPSET_COMMAND.protocol, { protocol: IPSET_PROTOCOL });
  return writer.end();
}

/** Returns the newest version that both sides support, for all other commands. Throws DecodeError if there is none. */
export function chooseProtocol(payload: Uint8Array): number {
  const { protocol: newest, oldest = 0 } = decode(IPSET_MESSAGE, payload, NETFILTER.size);
  const version = Math.min(newest, IPSET_PROTOCOL);
  if (version < IPSET_PROTOCOL_MIN || version < oldest) {
    const problem =
      `the kernel supports versions ${oldest} to ${newest} of the ipset protocol, ` +
      `kube-ipvs-proxy versions ${IPSET_PROTOCOL_MIN} to ${IPSET_PROTOCOL}`;
    throw new DecodeError('IPSET_ATTR_PROTOCOL', NETFILTER.size, problem);
  }
  return version;
}
