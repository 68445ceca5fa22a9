import type { IpAddress } from '../../../base/ip.ts';
import { type Row, decode, encode, nested, optional, reported, table } from '../../codec/attribute-table.ts';
import { readU32 } from '../../codec/bytes.ts';
import { NLM_F_CREATE, NLM_F_EXCL } from '../../codec/flags.ts';
import { beginMessage, header, readHeader } from '../../codec/header.ts';
import { address, raw, text, u32, u8 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';

export interface Link {
  readonly index: number;
  readonly name: string;
  /** The driver, such as "dummy" or "veth", if the kernel reports one. */
  readonly kind: string | undefined;
  /** The index of the interface, such as a bridge, that takes its packets. */
  readonly master: number | undefined;
  readonly up: boolean;
  readonly loopback: boolean;
  /** The number of the network namespace that has its other end; undefined if there is none, or it is in this one. */
  readonly namespaceId: number | undefined;
  /** The address at which a tunnel receives. */
  readonly local: IpAddress | undefined;
  /** net.ipv4.conf.NAME.forwarding; undefined if the interface has no IPv4. */
  readonly forwards4: boolean | undefined;
  readonly rpFilter: number;
  readonly arpAnnounce: number;
}

/** linux/rtnetlink.h. Replies to a GETLINK have type RTM_NEWLINK. */
export const RTM_NEWLINK = 16;
export const RTM_DELLINK = 17;
const RTM_GETLINK = 18;
/** linux/rtnetlink.h: leaves out the interface counters, which are large and unused. */
const RTEXT_FILTER_SKIP_STATS = 8;

/** linux/if.h */
export const IFF_UP = 1;
const IFF_LOOPBACK = 8;

/** linux/rtnetlink.h. The family is AF_UNSPEC (0). */
export const LINK_HEADER = header('struct ifinfomsg', [
  ['ifi_family', 1],
  ['', 1],
  ['ifi_type', 2],
  ['ifi_index', 4],
  ['ifi_flags', 4],
  ['ifi_change', 4],
]);

/** linux/if_tunnel.h: of ipip and ip6tnl, the protocol of the latter only. */
export const IP_TUNNEL = table({
  local: optional('IFLA_IPTUN_LOCAL', 2, address),
  protocol: optional('IFLA_IPTUN_PROTO', 9, u8),
});

/** linux/if_tunnel.h: of gre and ip6gre. */
export const GRE_TUNNEL = table({ local: optional('IFLA_GRE_LOCAL', 6, address) });

/** The sysctls net.ipv4.conf.DEVICE. A request nests one attribute for each; a reply has all as an array of u32. */
export const CONF = table({
  forwarding: optional('IPV4_DEVCONF_FORWARDING', 1, u32),
  rpFilter: optional('IPV4_DEVCONF_RP_FILTER', 8, u32),
  arpAnnounce: optional('IPV4_DEVCONF_ARP_ANNOUNCE', 18, u32),
});

const INFO = table({ kind: optional('IFLA_INFO_KIND', 1, text), data: optional('IFLA_INFO_DATA', 2, raw) });
const IP4 = table({ conf: optional('IFLA_INET_CONF', 1, raw) });

export const LINK = table({
  mask: optional('IFLA_EXT_MASK', 29, u32),
  name: reported('IFLA_IFNAME', 3, text),
  master: optional('IFLA_MASTER', 10, u32),
  info: optional('IFLA_LINKINFO', 18, nested(INFO)),
  /** By address family; the attribute of a family has its number. */
  families: optional('IFLA_AF_SPEC', 26, nested(table({ ip4: optional('AF_INET', 2, nested(IP4)) }))),
  namespaceId: optional('IFLA_LINK_NETNSID', 37, u32),
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
  const { name, master, info, families, namespaceId } = decode(LINK, payload, LINK_HEADER.size);
  const conf = families?.ip4?.conf;
  // The array begins with the sysctl 1.
  const setting = ({ id }: Row<number>): number | undefined =>
    conf === undefined || conf.length < id * 4 ? undefined : readU32(conf, (id - 1) * 4);
  const forwarding = setting(CONF.rows.forwarding);
  return {
    index,
    name,
    kind: info?.kind,
    master,
    up: (flags & IFF_UP) !== 0,
    loopback: (flags & IFF_LOOPBACK) !== 0,
    namespaceId,
    local: decodeLocal(info?.kind, info?.data),
    forwards4: forwarding === undefined ? undefined : forwarding !== 0,
    rpFilter: setting(CONF.rows.rpFilter) ?? 0,
    arpAnnounce: setting(CONF.rows.arpAnnounce) ?? 0,
  };
}

function decodeLocal(kind: string | undefined, data: Uint8Array | undefined): IpAddress | undefined {
  if (data === undefined) return undefined;
  if (kind === 'ipip' || kind === 'ip6tnl') return decode(IP_TUNNEL, data).local;
  return kind === 'gre' || kind === 'ip6gre' ? decode(GRE_TUNNEL, data).local : undefined;
}
