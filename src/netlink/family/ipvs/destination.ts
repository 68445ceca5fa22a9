import { type IpAddress, type IpFamily, familyOf } from '../../../base/ip.ts';
import { addressFamily, ipFamily } from '../../codec/address-family.ts';
import {
  decode,
  encodeNest,
  nested,
  constant,
  fallback,
  optional,
  reported,
  required,
  table,
  traced,
} from '../../codec/attribute-table.ts';
import { DecodeError, MISSING } from '../../codec/decode-error.ts';
import { be16, inetAddress, u16, u32, u8 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { IPVS_CMD_ATTR_DEST, IPVS_COMMAND, type IpvsCommand, beginIpvs, readNests } from './message.ts';
import { type IpvsServiceId, encodeServiceId } from './service.ts';
import { STATS, STATS64 } from './stats.ts';

/** Identifies a destination within its virtual server. */
export interface IpvsDestinationId {
  readonly address: IpAddress;
  readonly port: number;
}

export interface IpvsDestination extends IpvsDestinationId {
  readonly weight: number;
  /** The numbers of connections at which the kernel sets and clears IP_VS_DEST_F_OVERLOAD; 0 (default): no limit. */
  readonly upperThreshold?: number;
  readonly lowerThreshold?: number;
  /** linux/ip_vs.h, IP_VS_CONN_F_FWD_MASK: 0 masquerading (default), 1 local, 2 tunnel, 3 direct routing, 4 bypass. */
  readonly forwarding?: number;
  /** linux/ip_vs.h, IP_VS_CONN_F_TUNNEL_TYPE_*: 0 IPIP (default), 1 GUE, 2 GRE. Ignored before Linux 5.3. */
  readonly tunnelType?: number;
  /** The UDP port of GUE. */
  readonly tunnelPort?: number;
  /** linux/ip_vs.h: IP_VS_TUNNEL_ENCAP_FLAG_*. */
  readonly tunnelFlags?: number;
}

export interface IpvsObservedDestination extends Required<IpvsDestination> {
  readonly activeConnections: number;
  readonly inactiveConnections: number;
  readonly persistentConnections: number;
}

function idRows(family: IpFamily) {
  return {
    family: constant('IPVS_DEST_ATTR_ADDR_FAMILY', 11, u16, addressFamily(family)),
    address: required('IPVS_DEST_ATTR_ADDR', 1, inetAddress(family)),
    port: required('IPVS_DEST_ATTR_PORT', 2, be16),
  };
}

// The kernel refuses to add or edit a destination without forwarding, weight or thresholds.
function settingRows(family: IpFamily) {
  return {
    ...idRows(family),
    forwarding: fallback('IPVS_DEST_ATTR_FWD_METHOD', 3, u32, 0),
    weight: required('IPVS_DEST_ATTR_WEIGHT', 4, u32),
    tunnelType: fallback('IPVS_DEST_ATTR_TUN_TYPE', 13, u8, 0),
    tunnelPort: fallback('IPVS_DEST_ATTR_TUN_PORT', 14, be16, 0),
    tunnelFlags: fallback('IPVS_DEST_ATTR_TUN_FLAGS', 15, u16, 0),
    upperThreshold: fallback('IPVS_DEST_ATTR_U_THRESH', 5, u32, 0),
    lowerThreshold: fallback('IPVS_DEST_ATTR_L_THRESH', 6, u32, 0),
  };
}

function destinationTable(family: IpFamily) {
  return table({
    ...settingRows(family),
    activeConnections: reported('IPVS_DEST_ATTR_ACTIVE_CONNS', 7, u32),
    inactiveConnections: reported('IPVS_DEST_ATTR_INACT_CONNS', 8, u32),
    persistentConnections: reported('IPVS_DEST_ATTR_PERSIST_CONNS', 9, u32),
    stats: traced('IPVS_DEST_ATTR_STATS', 10, nested(STATS)),
    stats64: traced('IPVS_DEST_ATTR_STATS64', 12, nested(STATS64)),
  });
}

const ID = { 4: table(idRows(4)), 6: table(idRows(6)) };
/** What is written: an object that was read also has counters. */
const SETTINGS = { 4: table(settingRows(4)), 6: table(settingRows(6)) };
export const DESTINATION = { 4: destinationTable(4), 6: destinationTable(6) };
/** Decodes only the address family, which selects the table (DESTINATION[4] or [6]) for the whole destination. */
const SELECTOR = table({ family: optional('IPVS_DEST_ATTR_ADDR_FAMILY', 11, u16) });

function encodeDestination(
  writer: MessageWriter,
  familyId: number,
  command: IpvsCommand,
  service: IpvsServiceId,
  destination: IpvsDestination,
): number {
  beginIpvs(writer, familyId, command);
  encodeServiceId(writer, service);
  encodeNest(writer, IPVS_CMD_ATTR_DEST, SETTINGS[familyOf(destination.address)], destination);
  return writer.end();
}

/** EEXIST if the destination exists, ESRCH if the virtual server does not. */
export function addDestination(
  writer: MessageWriter,
  familyId: number,
  service: IpvsServiceId,
  destination: IpvsDestination,
): number {
  return encodeDestination(writer, familyId, IPVS_COMMAND.newDestination, service, destination);
}

/** ENOENT if the destination does not exist, ESRCH if the virtual server does not. */
export function editDestination(
  writer: MessageWriter,
  familyId: number,
  service: IpvsServiceId,
  destination: IpvsDestination,
): number {
  return encodeDestination(writer, familyId, IPVS_COMMAND.setDestination, service, destination);
}

/** ENOENT if the destination does not exist, ESRCH if the virtual server does not. */
export function deleteDestination(
  writer: MessageWriter,
  familyId: number,
  service: IpvsServiceId,
  destination: IpvsDestinationId,
): number {
  beginIpvs(writer, familyId, IPVS_COMMAND.deleteDestination);
  encodeServiceId(writer, service);
  encodeNest(writer, IPVS_CMD_ATTR_DEST, ID[familyOf(destination.address)], destination);
  return writer.end();
}

/**
 * Writes a request for the destinations of one virtual server. `decodeDestination` decodes each reply message. For a
 * virtual server that does not exist the dump is empty, as for one without destinations.
 */
export function dumpDestinations(writer: MessageWriter, familyId: number, service: IpvsServiceId): number {
  beginIpvs(writer, familyId, IPVS_COMMAND.getDestination);
  encodeServiceId(writer, service);
  return writer.endDump();
}

/**
 * Decodes one reply message. Kernels before 3.18 do not report a destination's family; it is then that of the virtual
 * server. Throws DecodeError.
 */
export function decodeDestination(payload: Uint8Array, serviceFamily: IpFamily): IpvsObservedDestination {
  const { destination } = readNests(payload);
  if (destination === undefined) throw new DecodeError('IPVS_CMD_ATTR_DEST', 0, MISSING);
  const selector = decode(SELECTOR, destination).family;
  const family = selector === undefined ? serviceFamily : ipFamily(selector);
  if (family === undefined) throw new DecodeError('IPVS_DEST_ATTR_ADDR_FAMILY', 0, 'neither IPv4 nor IPv6');
  return decode(DESTINATION[family], destination);
}
