import { type IpAddress, familyOf, isIp4 } from '../../../base/ip.ts';
import { addressFamily } from '../../codec/address-family.ts';
import { decode, encode } from '../../codec/attribute-table.ts';
import { beginMessage, readHeader } from '../../codec/header.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { ROUTE, ROUTE_HEADER, RTM_GETROUTE, RTN_LOCAL } from './host-route.ts';

/** linux/rtnetlink.h */
const RTN_UNICAST = 1;

/** The route that the kernel chooses for an address. */
export interface ChosenRoute {
  readonly local: boolean;
  /** Index of the interface. */
  readonly index: number;
  readonly gateway: boolean;
  readonly source?: IpAddress;
}

/** Writes a request for the route to one address; ENETUNREACH if there is none. `decodeChosenRoute` decodes the reply. */
export function lookUpRoute(writer: MessageWriter, destination: IpAddress): number {
  const fields = { rtm_family: addressFamily(familyOf(destination)), rtm_dst_len: isIp4(destination) ? 32 : 128 };
  beginMessage(writer, RTM_GETROUTE, ROUTE_HEADER, fields);
  encode(writer, ROUTE, { destination });
  return writer.end();
}

/** Returns undefined for a route that delivers nothing, such as an unreachable one. Throws DecodeError. */
export function decodeChosenRoute(payload: Uint8Array): ChosenRoute | undefined {
  const { rtm_type: type } = readHeader(ROUTE_HEADER, payload);
  const { index, gateway, via, source } = decode(ROUTE, payload, ROUTE_HEADER.size);
  if ((type !== RTN_LOCAL && type !== RTN_UNICAST) || index === undefined) return undefined;
  return {
    local: type === RTN_LOCAL,
    index,
    gateway: gateway !== undefined || via !== undefined,
    ...(source === undefined ? {} : { source }),
  };
}
