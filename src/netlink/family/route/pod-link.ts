import type { IpAddress } from '../../../base/ip.ts';
import { encode, nested, type Rows, type Table, optional, reported, table } from '../../codec/attribute-table.ts';
import { NLM_F_CREATE, NLM_F_EXCL } from '../../codec/flags.ts';
import { beginMessage } from '../../codec/header.ts';
import { text } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { CONF, GRE_TUNNEL, IFF_UP, IP_TUNNEL, LINK_HEADER, RTM_NEWLINK } from './link.ts';

/** linux/in.h: IPv6 in IPv6. Without it, a tunnel of kind ip6tnl also carries IPv4. */
const IPPROTO_IPV6 = 41;

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
