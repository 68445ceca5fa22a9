import { decode, encode, nested, optional, reported, table } from '../../codec/attribute-table.ts';
import { NLM_F_CREATE, NLM_F_EXCL } from '../../codec/flags.ts';
import { beginMessage, header, readHeader } from '../../codec/header.ts';
import { raw, text, u32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';

/** A network interface. */
export interface Link {
  readonly index: number;
  readonly name: string;
  /** The driver, such as "dummy" or "veth", if the kernel reports one. */
  readonly kind: string | undefined;
  /** The index of the interface, such as a bridge, that takes its packets. */
  readonly master: number | undefined;
  readonly up: boolean;
  readonly loopback: boolean;
  /** net.ipv4.conf.NAME.forwarding; undefined if the interface has no IPv4. */
  readonly forwards4: boolean | undefined;
}

/** linux/rtnetlink.h. Replies to a GETLINK have type RTM_NEWLINK. */
export const RTM_NEWLINK = 16;
export const RTM_DELLINK = 17;
const RTM_GETLINK = 18;
/** linux/rtnetlink.h: leaves out the interface counters, which are large and unused. */
const RTEXT_FILTER_SKIP_STATS = 8;

/** linux/if.h */
const IFF_UP = 1;
const IFF_LOOPBACK = 8;
/** linux/ip.h: IFLA_INET_CONF is an array of u32; the setting with number 1, IPV4_DEVCONF_FORWARDING, comes first. */
const FORWARDING_AT = 0;

/** linux/rtnetlink.h. The family is AF_UNSPEC (0). */
export const LINK_HEADER = header('struct ifinfomsg', [
  ['ifi_family', 1],
  ['', 1],
  ['ifi_type', 2],
  ['ifi_index', 4],
  ['ifi_flags', 4],
  ['ifi_change', 4],
]);

const IP4 = table({ conf: optional('IFLA_INET_CONF', 1, raw) });

export const LINK = table({
  mask: optional('IFLA_EXT_MASK', 29, u32),
  name: reported('IFLA_IFNAME', 3, text),
  master: optional('IFLA_MASTER', 10, u32),
  info: optional('IFLA_LINKINFO', 18, nested(table({ kind: optional('IFLA_INFO_KIND', 1, text) }))),
  /** By address family; the attribute of a family has its number. */
  families: optional('IFLA_AF_SPEC', 26, nested(table({ ip4: optional('AF_INET', 2, nested(IP4)) }))),
});

/** Creates an interface of this kind; EEXIST if the name is taken, EOPNOTSUPP if the kernel does not have the kind. */
export function createLink(writer: MessageWriter, name: string, kind: string): number {
  beginMessage(writer, RTM_NEWLINK, LINK_HEADER, {}, NLM_F_CREATE | NLM_F_EXCL);
  encode(writer, LINK, { name, info: { kind } });
  return writer.end();
}

/** Deletes an interface by name; ENODEV if it does not exist. */
export function deleteLinkByName(writer: MessageWriter, name: string): number {
  beginMessage(writer, RTM_DELLINK, LINK_HEADER, {});
  encode(writer, LINK, { name });
  return writer.end();
}

/** Writes a request for one interface; ENODEV if it does not exist. `decodeLink` decodes the reply. */
export function getLink(writer: MessageWriter, name: string): number {
  beginMessage(writer, RTM_GETLINK, LINK_HEADER, {});
  encode(writer, LINK, { mask: RTEXT_FILTER_SKIP_STATS, name });
  return writer.end();
}

/** Writes a request for all interfaces. `decodeLink` decodes each reply. With NLM_F_DUMP_INTR, repeat the dump. */
export function dumpLinks(writer: MessageWriter): number {
  beginMessage(writer, RTM_GETLINK, LINK_HEADER, {});
  encode(writer, LINK, { mask: RTEXT_FILTER_SKIP_STATS });
  return writer.endDump();
}

/** Throws DecodeError. */
export function decodeLink(payload: Uint8Array): Link {
  const { ifi_index: index, ifi_flags: flags } = readHeader(LINK_HEADER, payload);
  const { name, master, info, families } = decode(LINK, payload, LINK_HEADER.size);
  return {
    index,
    name,
    kind: info?.kind,
    master,
    up: (flags & IFF_UP) !== 0,
    loopback: (flags & IFF_LOOPBACK) !== 0,
    forwards4: forwarding(families?.ip4?.conf),
  };
}

function forwarding(conf: Uint8Array | undefined): boolean | undefined {
  if (conf === undefined || conf.byteLength < FORWARDING_AT + 4) return undefined;
  return new Uint32Array(conf.slice(FORWARDING_AT, FORWARDING_AT + 4).buffer)[0] !== 0;
}
