import { readU32 } from '../../codec/bytes.ts';
import { decode } from '../../codec/decode.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { encode } from '../../codec/encode.ts';
import { NLM_F_CREATE, NLM_F_EXCL } from '../../codec/flags.ts';
import { text, u32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { nested } from '../../codec/nested.ts';
import { constant, optional, required, table } from '../../codec/table.ts';

/** A network interface. */
export interface Link {
  readonly index: number;
  readonly name: string;
  /** linux/if.h: IFF_*. */
  readonly flags: number;
  /** Driver ("dummy", "veth", ...), if the kernel reports one. */
  readonly kind: string | undefined;
}

/** linux/rtnetlink.h. Replies to a GETLINK have type RTM_NEWLINK. */
export const RTM_NEWLINK = 16;
export const RTM_DELLINK = 17;
const RTM_GETLINK = 18;
/** linux/if.h. */
export const IFF_UP = 0x1;
/** linux/rtnetlink.h: leaves out the interface counters, which are large and unused. */
const RTEXT_FILTER_SKIP_STATS = 8;

/** Size of struct ifinfomsg { u8 family; u8 pad; u16 type; s32 index; u32 flags; u32 change }. linux/rtnetlink.h. */
const LINK_HEADER_SIZE = 16;

const INFO = table({ kind: optional('IFLA_INFO_KIND', 1, text) });

export const LINK = table({
  name: required('IFLA_IFNAME', 3, text),
  info: optional('IFLA_LINKINFO', 18, nested(INFO)),
});

const MASK = constant('IFLA_EXT_MASK', 29, u32, RTEXT_FILTER_SKIP_STATS);
const DUMP = table({ mask: MASK });
const QUERY = table({ mask: MASK, name: LINK.rows.name });
const NAME = table({ name: LINK.rows.name });

interface LinkHeader {
  readonly index?: number;
  readonly flags?: number;
  /** Mask of the flags to change. */
  readonly change?: number;
}

function beginLink(writer: MessageWriter, type: number, header: LinkHeader = {}, flags = 0): void {
  writer.begin(type, flags);
  // AF_UNSPEC, padding, and ARPHRD_NETROM (0), which the kernel ignores.
  writer.u32(0);
  writer.u32(header.index ?? 0);
  writer.u32(header.flags ?? 0);
  writer.u32(header.change ?? 0);
}

/** Creates an interface of this kind; EEXIST if the name is taken, EOPNOTSUPP if the kernel does not have the kind. */
export function createLink(writer: MessageWriter, name: string, kind: string): number {
  beginLink(writer, RTM_NEWLINK, {}, NLM_F_CREATE | NLM_F_EXCL);
  encode(writer, LINK, { name, info: { kind } });
  return writer.end();
}

/** Deletes by name; ENODEV if it does not exist. */
export function deleteLinkByName(writer: MessageWriter, name: string): number {
  beginLink(writer, RTM_DELLINK);
  encode(writer, NAME, { name });
  return writer.end();
}

/** Sets or clears IFF_UP. */
export function setLinkUp(writer: MessageWriter, index: number, up: boolean): number {
  beginLink(writer, RTM_NEWLINK, { index, flags: up ? IFF_UP : 0, change: IFF_UP });
  return writer.end();
}

/** Writes a request for one interface; ENODEV if it does not exist. `decodeLink` decodes the reply. */
export function getLink(writer: MessageWriter, name: string): number {
  beginLink(writer, RTM_GETLINK);
  encode(writer, QUERY, { name });
  return writer.end();
}

/** Writes a request for all interfaces. `decodeLink` decodes each reply message. NLM_F_DUMP_INTR: repeat the dump. */
export function dumpLinks(writer: MessageWriter): number {
  beginLink(writer, RTM_GETLINK);
  encode(writer, DUMP, {});
  return writer.endDump();
}

/** Throws DecodeError. */
export function decodeLink(payload: Uint8Array): Link {
  if (payload.length < LINK_HEADER_SIZE) throw new DecodeError('struct ifinfomsg', 0, `${payload.length} bytes`);
  const { name, info } = decode(LINK, payload, LINK_HEADER_SIZE);
  return { index: readU32(payload, 4), name, flags: readU32(payload, 8), kind: info?.kind };
}
