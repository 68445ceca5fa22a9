import { type Cidr, cidrFamily, cidrOf } from '../../../base/cidr.ts';
import { type IpAddress, type IpFamily, familyOf, isIp4 } from '../../../base/ip.ts';
import { addressFamily, ipFamily } from '../../codec/address-family.ts';
import { decode, encode, optional, table } from '../../codec/attribute-table.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { NLM_F_CREATE } from '../../codec/flags.ts';
import { beginMessage, header, readHeader } from '../../codec/header.ts';
import { address, raw, u32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';

/** An RTN_LOCAL route in the local table: this host accepts packets to every address of the network. */
export interface HostRoute {
  readonly cidr: Cidr;
  /** Index of the interface. */
  readonly index: number;
  /** RTPROT_*: the origin of the route. */
  readonly protocol: number;
  /** The source address of this host's own connections to the network. If absent, it is their destination address. */
  readonly source?: IpAddress | undefined;
  /** The kernel prefers the route with the lowest metric. If absent, it is 0 for IPv4 and 1024 for IPv6. */
  readonly metric?: number | undefined;
}

/** linux/rtnetlink.h. Replies to a GETROUTE have type RTM_NEWROUTE. */
export const RTM_NEWROUTE = 24;
const RTM_DELROUTE = 25;
export const RTM_GETROUTE = 26;

/** linux/rtnetlink.h: added by the kernel, one per interface address. */
export const RTPROT_KERNEL = 2;
const RT_TABLE_LOCAL = 255;
export const RTN_LOCAL = 2;
const RT_SCOPE_UNIVERSE = 0;
const RT_SCOPE_HOST = 254;
/** In a deletion: any scope. */
const RT_SCOPE_NOWHERE = 255;

/** linux/rtnetlink.h. The unnamed field is rtm_src_len and rtm_tos: 0 means any source and any type of service. */
export const ROUTE_HEADER = header('struct rtmsg', [
  ['rtm_family', 1],
  ['rtm_dst_len', 1],
  ['', 2],
  ['rtm_table', 1],
  ['rtm_protocol', 1],
  ['rtm_scope', 1],
  ['rtm_type', 1],
  ['rtm_flags', 4],
]);

export const ROUTE = table({
  destination: optional('RTA_DST', 1, address),
  index: optional('RTA_OIF', 4, u32),
  gateway: optional('RTA_GATEWAY', 5, address),
  metric: optional('RTA_PRIORITY', 6, u32),
  source: optional('RTA_PREFSRC', 7, address),
  table: optional('RTA_TABLE', 15, u32),
  /** struct rtvia: a gateway of another family. */
  via: optional('RTA_VIA', 18, raw),
});

function writeRoute(writer: MessageWriter, type: number, route: HostRoute, flags: number): number {
  const { cidr, index, protocol, source, metric } = route;
  const family = cidrFamily(cidr);
  const fields = {
    rtm_family: addressFamily(family),
    rtm_dst_len: cidr.prefix,
    rtm_table: RT_TABLE_LOCAL,
    rtm_protocol: protocol,
    // IPv6 routes have no scope.
    rtm_scope: family === 4 ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
    rtm_type: RTN_LOCAL,
  };
  beginMessage(writer, type, ROUTE_HEADER, fields, flags);
  encode(writer, ROUTE, { destination: cidr.address, index, metric, source });
  return writer.end();
}

/** Adds a route without replacing others; EEXIST if this exact route exists. */
export function addHostRoute(writer: MessageWriter, route: HostRoute): number {
  return writeRoute(writer, RTM_NEWROUTE, route, NLM_F_CREATE);
}

/** Deletes a route; ESRCH if none has this network, interface and protocol, and this metric and source, if given. */
export function deleteHostRoute(writer: MessageWriter, route: HostRoute): number {
  return writeRoute(writer, RTM_DELROUTE, route, 0);
}

/**
 * Writes a request for the routes of one family in the local table; ENOENT if there is none yet. Kernels before 4.20, and
 * sockets without NETLINK_GET_STRICT_CHK, return those of all tables. `decodeLocalTable` decodes each reply message.
 */
export function dumpRoutes(writer: MessageWriter, family: IpFamily): number {
  beginMessage(writer, RTM_GETROUTE, ROUTE_HEADER, { rtm_family: addressFamily(family) });
  encode(writer, ROUTE, { table: RT_TABLE_LOCAL });
  return writer.endDump();
}

/** Deletes the first route to the address in the local table, whatever it does; ESRCH if there is none. */
export function deleteRouteTo(writer: MessageWriter, destination: IpAddress): number {
  const fields = {
    rtm_family: addressFamily(familyOf(destination)),
    rtm_dst_len: isIp4(destination) ? 32 : 128,
    rtm_table: RT_TABLE_LOCAL,
    rtm_scope: RT_SCOPE_NOWHERE,
  };
  beginMessage(writer, RTM_DELROUTE, ROUTE_HEADER, fields, 0);
  encode(writer, ROUTE, { destination });
  return writer.end();
}

/** A route of the local table; one that is not local drops or refuses packets, or is for broadcasts. */
export interface LocalTableRoute extends Omit<HostRoute, 'index'> {
  readonly index: number | undefined;
  readonly isLocal: boolean;
}

/** Returns undefined for a route of another table. Throws DecodeError. */
export function decodeLocalTable(payload: Uint8Array): LocalTableRoute | undefined {
  const fields = readHeader(ROUTE_HEADER, payload);
  const family = ipFamily(fields.rtm_family);
  if (family === undefined || fields.rtm_table !== RT_TABLE_LOCAL) return undefined;
  const { destination, index, source, metric } = decode(ROUTE, payload, ROUTE_HEADER.size);
  if (destination === undefined) return undefined;
  const prefix = fields.rtm_dst_len;
  if (prefix > (family === 4 ? 32 : 128))
    throw new DecodeError('rtm_dst_len', 1, `${prefix} exceeds the bits of an address`);
  const isLocal = fields.rtm_type === RTN_LOCAL;
  return { cidr: cidrOf(destination, prefix), index, protocol: fields.rtm_protocol, source, metric, isLocal };
}
