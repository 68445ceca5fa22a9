import type { IpAddress } from '../../../base/ip.ts';
import { readU32 } from '../../codec/bytes.ts';
import {
  decode,
  encode,
  nested,
  type Row,
  type Rows,
  type Table,
  optional,
  reported,
  table,
} from '../../codec/attribute-table.ts';
import { NLM_F_CREATE, NLM_F_EXCL } from '../../codec/flags.ts';
import { beginMessage, readHeader } from '../../codec/header.ts';
import { address, raw, text, u32, u8 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { LINK_HEADER, RTM_NEWLINK } from './link.ts';

/** linux/if.h. */
const IFF_UP = 1;
/** linux/in.h: IPv6 in IPv6. Without it, a tunnel of kind ip6tnl also carries IPv4. */
const IPPROTO_IPV6 = 41;

/** linux/if_tunnel.h: of ipip and ip6tnl, the protocol of the latter only. */
const IP_TUNNEL = table({
  local: optional('IFLA_IPTUN_LOCAL', 2, address),
  protocol: optional('IFLA_IPTUN_PROTO', 9, u8),
});

/** linux/if_tunnel.h: of gre and ip6gre. */
const GRE_TUNNEL = table({ local: optional('IFLA_GRE_LOCAL', 6, address) });

/** The sysctls net.ipv4.conf.DEVICE. A request nests one attribute for each; a reply has all as an array of u32. */
const CONF = table({
  rpFilter: optional('IPV4_DEVCONF_RP_FILTER', 8, u32),
  arpAnnounce: optional('IPV4_DEVCONF_ARP_ANNOUNCE', 18, u32),
});

const SETTING = table({
  families: optional(
    'IFLA_AF_SPEC',
    26,
    nested(
      table({ inet: optional('AF_INET', 2, nested(table({ conf: optional('IFLA_INET_CONF', 1, nested(CONF)) }))) }),
    ),
  ),
});

const newTunnel = <T extends Rows>(data: Table<T>) =>
  table({
    name: reported('IFLA_IFNAME', 3, text),
    info: optional(
      'IFLA_LINKINFO',
      18,
      nested(table({ kind: optional('IFLA_INFO_KIND', 1, text), data: optional('IFLA_INFO_DATA', 2, nested(data)) })),
    ),
  });

const NEW_IP_TUNNEL = newTunnel(IP_TUNNEL);
const NEW_GRE_TUNNEL = newTunnel(GRE_TUNNEL);

type TunnelKind = 'ipip' | 'ip6tnl' | 'gre' | 'ip6gre';

const FOUND = table({
  name: reported('IFLA_IFNAME', 3, text),
  info: optional(
    'IFLA_LINKINFO',
    18,
    nested(table({ kind: optional('IFLA_INFO_KIND', 1, text), data: optional('IFLA_INFO_DATA', 2, raw) })),
  ),
  families: optional(
    'IFLA_AF_SPEC',
    26,
    nested(table({ inet: optional('AF_INET', 2, nested(table({ conf: optional('IFLA_INET_CONF', 1, raw) }))) })),
  ),
});

/** Creates a tunnel that accepts packets from everyone; EEXIST if the name is taken, EOPNOTSUPP without the module. */
export function createTunnel(writer: MessageWriter, name: string, kind: TunnelKind, local: IpAddress): number {
  beginMessage(writer, RTM_NEWLINK, LINK_HEADER, {}, NLM_F_CREATE | NLM_F_EXCL);
  if (kind === 'gre' || kind === 'ip6gre') encode(writer, NEW_GRE_TUNNEL, { name, info: { kind, data: { local } } });
  else {
    const data = kind === 'ip6tnl' ? { local, protocol: IPPROTO_IPV6 } : { local };
    encode(writer, NEW_IP_TUNNEL, { name, info: { kind, data } });
  }
  return writer.end();
}

/** ENODEV if the device does not exist. */
export function setLinkUp(writer: MessageWriter, index: number): number {
  beginMessage(writer, RTM_NEWLINK, LINK_HEADER, { ifi_index: index, ifi_flags: IFF_UP, ifi_change: IFF_UP });
  return writer.end();
}

/** Sets sysctls net.ipv4.conf.DEVICE. ENODEV if the device does not exist, EAFNOSUPPORT if it has no IPv4. */
export function setIpv4Conf(
  writer: MessageWriter,
  index: number,
  conf: { readonly rpFilter?: number; readonly arpAnnounce?: number },
): number {
  beginMessage(writer, RTM_NEWLINK, LINK_HEADER, { ifi_index: index });
  encode(writer, SETTING, { families: { inet: { conf } } });
  return writer.end();
}

export interface FoundLink {
  readonly index: number;
  readonly name: string;
  readonly kind: string | undefined;
  readonly up: boolean;
  readonly local: IpAddress | undefined;
  readonly rpFilter: number;
  readonly arpAnnounce: number;
}

/** Reads a reply to dumpLinks. Throws DecodeError. */
export function decodeFoundLink(payload: Uint8Array): FoundLink {
  const { ifi_index: index, ifi_flags: flags } = readHeader(LINK_HEADER, payload);
  const { name, info, families } = decode(FOUND, payload, LINK_HEADER.size);
  const kind = info?.kind;
  const data = info?.data;
  const local = data === undefined ? undefined : decodeLocal(kind, data);
  const conf = families?.inet?.conf;
  // The array begins with the sysctl 1.
  const setting = ({ id }: Row<number>): number =>
    conf === undefined || conf.length < id * 4 ? 0 : readU32(conf, (id - 1) * 4);
  return {
    index,
    name,
    kind,
    up: (flags & IFF_UP) !== 0,
    local,
    rpFilter: setting(CONF.rows.rpFilter),
    arpAnnounce: setting(CONF.rows.arpAnnounce),
  };
}

function decodeLocal(kind: string | undefined, data: Uint8Array): IpAddress | undefined {
  if (kind === 'ipip' || kind === 'ip6tnl') return decode(IP_TUNNEL, data).local;
  return kind === 'gre' || kind === 'ip6gre' ? decode(GRE_TUNNEL, data).local : undefined;
}
