import { type IpAddress, type IpFamily, ip4FromBytes, ip6FromBytes } from '../../../base/ip.ts';
import { addressFamily, ipFamily } from '../../codec/address-family.ts';
import { header, beginMessage } from '../../codec/header.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';

/** linux/sock_diag.h. */
const SOCK_DIAG_BY_FAMILY = 20;
/** linux/in.h. */
const IPPROTO_TCP = 6;
/** Bits 1 << TCP_* of net/tcp_states.h: from ESTABLISHED to FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING. */
const CONNECTED = 0b1011_0011_1110;

/** linux/inet_diag.h: 48 bytes of struct inet_diag_sockid follow, all 0 in a dump. */
const REQUEST = header('struct inet_diag_req_v2', [
  ['sdiag_family', 1],
  ['sdiag_protocol', 1],
  ['', 2],
  ['idiag_states', 4],
]);
const SOCKET_ID_SIZE = 48;

/** Offset of idiag_src in struct inet_diag_msg, and the size of that structure. */
const SOURCE = 8;
const MESSAGE_SIZE = 72;

/** Writes a request for the TCP connections of a family. ENOENT if the kernel lacks tcp_diag. */
export function dumpTcpConnections(writer: MessageWriter, family: IpFamily): number {
  const fields = { sdiag_family: addressFamily(family), sdiag_protocol: IPPROTO_TCP, idiag_states: CONNECTED };
  beginMessage(writer, SOCK_DIAG_BY_FAMILY, REQUEST, fields);
  writer.zeros(SOCKET_ID_SIZE);
  return writer.endDump();
}

/** Returns the local address of a connection; of an IPv6 socket with an IPv4 connection, the IPv4 address. */
export function decodeLocalAddress(payload: Uint8Array): IpAddress | undefined {
  if (payload.length < MESSAGE_SIZE)
    throw new DecodeError('struct inet_diag_msg', 0, `${payload.length} bytes, fewer than ${MESSAGE_SIZE}`);
  const family = ipFamily(payload[0] as number);
  if (family === undefined) return undefined;
  if (family === 4) return ip4FromBytes(payload, SOURCE);
  const address = ip6FromBytes(payload, SOURCE);
  return address >> 32n === 0xffffn ? ip4FromBytes(payload, SOURCE + 12) : address;
}
