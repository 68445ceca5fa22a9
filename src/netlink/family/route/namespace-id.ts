import { decode, encode, optional, table } from '../../codec/attribute-table.ts';
import { beginMessage, header } from '../../codec/header.ts';
import { u32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';

/** linux/rtnetlink.h. The reply to a GETNSID has type RTM_NEWNSID. */
const RTM_GETNSID = 90;
/** linux/net_namespace.h: NETNSA_NSID_NOT_ASSIGNED is -1. */
const NOT_ASSIGNED = 0xffff_ffff;

/** linux/rtnetlink.h. The family is AF_UNSPEC (0). */
const NAMESPACE_HEADER = header('struct rtgenmsg', [
  ['rtgen_family', 1],
  ['', 1],
  ['', 2],
]);

/** linux/net_namespace.h */
const NAMESPACE = table({
  id: optional('NETNSA_NSID', 1, u32),
  fd: optional('NETNSA_FD', 3, u32),
});

/** Asks for the number by which the socket's network namespace knows another one, of which `fd` is an open file. */
export function getNamespaceId(writer: MessageWriter, fd: number): number {
  beginMessage(writer, RTM_GETNSID, NAMESPACE_HEADER, {});
  encode(writer, NAMESPACE, { fd });
  return writer.end();
}

/** Returns undefined if no link leads to the other namespace. Throws DecodeError. */
export function decodeNamespaceId(payload: Uint8Array): number | undefined {
  const { id } = decode(NAMESPACE, payload, NAMESPACE_HEADER.size);
  return id === NOT_ASSIGNED ? undefined : id;
}
