import { type Cidr, cidrFamily, cidrOf } from '../../../base/cidr.ts';
import type { IpFamily } from '../../../base/ip.ts';
import { addressFamily, ipFamily } from '../../codec/address-family.ts';
import { decode } from '../../codec/decode.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { encode } from '../../codec/encode.ts';
import { NLM_F_CREATE } from '../../codec/flags.ts';
import { address, u32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { optional, required, table } from '../../codec/table.ts';

/** An RTN_LOCAL route in the local table: this host accepts packets to every address of the network. */
export interface HostRoute {
  readonly cidr: Cidr;
  /** Index of the interface. */
  readonly index: number;
  /** RTPROT_*: the origin of the route. */
  readonly protocol: number;
}

/** linux/rtnetlink.h. Replies to a GETROUTE have type RTM_NEWROUTE. */
export const RTM_NEWROUTE = 24;
const RTM_DELROUTE = 25;
const RTM_GETROUTE = 26;

/** linux/rtnetlink.h: added by the kernel, one per interface address. */
export const RTPROT_KERNEL = 2;
const RT_TABLE_LOCAL = 255;
const RTN_LOCAL = 2;
const RT_SCOPE_UNIVERSE = 0;
const RT_SCOPE_HOST = 254;

/**
 * Size of struct rtmsg { u8 family; u8 dst_len; u8 src_len; u8 tos; u8 table; u8 protocol; u8 scope; u8 type;
 * u32 flags }. linux/rtnetlink.h.
 */
const ROUTE_HEADER_SIZE = 12;

function routeTable(family: IpFamily) {
  return table({
    destination: required('RTA_DST', 1, address(family)),
    index: required('RTA_OIF', 4, u32),
  });
}

function observedTable(family: IpFamily) {
  return table({
    destination: optional('RTA_DST', 1, address(family)),
    index: optional('RTA_OIF', 4, u32),
  });
}

const ROUTE = { 4: routeTable(4), 6: routeTable(6) };
export const OBSERVED = { 4: observedTable(4), 6: observedTable(6) };

function beginRoute(writer: MessageWriter, type: number, { cidr, protocol }: HostRoute, flags: number): void {
  const family = cidrFamily(cidr);
  writer.begin(type, flags);
  writer.u8(addressFamily(family));
  writer.u8(cidr.prefix);
  // Any source and type of service.
  writer.u8(0);
  writer.u8(0);
  writer.u8(RT_TABLE_LOCAL);
  writer.u8(protocol);
  // IPv6 routes have no scope.
  writer.u8(family === 4 ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE);
  writer.u8(RTN_LOCAL);
  writer.u32(0);
}

/** Adds a route without replacing others; EEXIST if this exact route exists. */
export function addHostRoute(writer: MessageWriter, route: HostRoute): number {
  beginRoute(writer, RTM_NEWROUTE, route, NLM_F_CREATE);
  encode(writer, ROUTE[cidrFamily(route.cidr)], { destination: route.cidr.address, index: route.index });
  return writer.end();
}

/** Deletes a route; ESRCH if none has this network, interface and protocol. */
export function deleteHostRoute(writer: MessageWriter, route: HostRoute): number {
  beginRoute(writer, RTM_DELROUTE, route, 0);
  encode(writer, ROUTE[cidrFamily(route.cidr)], { destination: route.cidr.address, index: route.index });
  return writer.end();
}

/** Writes a request for the routes of one family in all tables. `decodeHostRoute` decodes each reply message. */
export function dumpRoutes(writer: MessageWriter, family: IpFamily): number {
  writer.begin(RTM_GETROUTE, 0);
  writer.u32(addressFamily(family));
  writer.zeros(ROUTE_HEADER_SIZE - 4);
  return writer.endDump();
}

/** Returns undefined for any route that is not a HostRoute. Throws DecodeError. */
export function decodeHostRoute(payload: Uint8Array): HostRoute | undefined {
  if (payload.length < ROUTE_HEADER_SIZE) throw new DecodeError('struct rtmsg', 0, `${payload.length} bytes`);
  const family = ipFamily(payload[0] as number);
  if (family === undefined || payload[4] !== RT_TABLE_LOCAL || payload[7] !== RTN_LOCAL) return undefined;
  const { destination, index } = decode(OBSERVED[family], payload, ROUTE_HEADER_SIZE);
  if (destination === undefined || index === undefined) return undefined;
  const prefix = payload[1] as number;
  if (prefix > (family === 4 ? 32 : 128)) throw new DecodeError('rtm_dst_len', 1, String(prefix));
  return { cidr: cidrOf(destination, prefix), index, protocol: payload[5] as number };
}
