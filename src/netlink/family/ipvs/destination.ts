import { type IpAddress, type IpFamily, familyOf } from '../../../base/ip.ts';
import { PROTOCOL_NUMBER } from '../../../base/protocol.ts';
import { addressFamily, ipFamily } from '../../codec/address-family.ts';
import { readU16 } from '../../codec/bytes.ts';
import { decode, findPayload, payloadEnd } from '../../codec/decode.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { encodeNest } from '../../codec/encode.ts';
import { GENERIC_HEADER_SIZE, readGenericCommand } from '../../codec/generic-message.ts';
import { MESSAGE_HEADER_SIZE } from '../../codec/flags.ts';
import { be16, inetAddress, u16, u32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { constant, fallback, required, table } from '../../codec/table.ts';
import { template } from '../../codec/template.ts';
import { IPVS_CMD_ATTR_DEST, IPVS_CMD_ATTR_SERVICE, IPVS_COMMAND, type IpvsCommand, beginIpvs } from './command.ts';
import { type IpvsServiceId, SERVICE_ID_ROWS, encodeServiceId } from './service.ts';

/** Identifies a destination within its virtual server. */
export interface IpvsDestinationId {
  readonly address: IpAddress;
  readonly port: number;
}

export interface IpvsDestination extends IpvsDestinationId {
  readonly weight: number;
  /** linux/ip_vs.h, IP_VS_CONN_F_FWD_MASK: 0 masquerading (default), 1 local, 2 tunnel, 3 direct routing, 4 bypass. */
  readonly forwarding?: number;
  /** Number of connections at which the kernel sends no new ones; 0 (the default): no limit. */
  readonly upperThreshold?: number;
  /** Number of connections below which it sends new ones again; 0: three quarters of the upper threshold. */
  readonly lowerThreshold?: number;
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

// The kernel refuses to add or edit a destination that lacks any of these.
function destinationRows(family: IpFamily) {
  return {
    ...idRows(family),
    forwarding: fallback('IPVS_DEST_ATTR_FWD_METHOD', 3, u32, 0),
    weight: required('IPVS_DEST_ATTR_WEIGHT', 4, u32),
    upperThreshold: fallback('IPVS_DEST_ATTR_U_THRESH', 5, u32, 0),
    lowerThreshold: fallback('IPVS_DEST_ATTR_L_THRESH', 6, u32, 0),
  };
}

function observedRows(family: IpFamily) {
  return {
    ...destinationRows(family),
    activeConnections: fallback('IPVS_DEST_ATTR_ACTIVE_CONNS', 7, u32, 0),
    inactiveConnections: fallback('IPVS_DEST_ATTR_INACT_CONNS', 8, u32, 0),
    persistentConnections: fallback('IPVS_DEST_ATTR_PERSIST_CONNS', 9, u32, 0),
  };
}

const ID = { 4: table(idRows(4)), 6: table(idRows(6)) };
const DESTINATION = { 4: table(destinationRows(4)), 6: table(destinationRows(6)) };
export const OBSERVED = { 4: table(observedRows(4)), 6: table(observedRows(6)) };
/** linux/ip_vs.h: IPVS_DEST_ATTR_ADDR_FAMILY, read before the family is known. */
const IPVS_DEST_ATTR_ADDR_FAMILY = 11;

/** The template of a message that adds or edits a destination, and the offsets of the values to patch. */
interface Layout {
  readonly words: Uint32Array;
  readonly protocol: number;
  readonly serviceAddress: number;
  readonly servicePort: number;
  readonly address: number;
  readonly port: number;
  readonly forwarding: number;
  readonly weight: number;
  readonly upperThreshold: number;
  readonly lowerThreshold: number;
}

function layoutOf(serviceFamily: IpFamily, family: IpFamily): Layout {
  const { words, offset } = template((writer) => {
    beginIpvs(writer, 0, IPVS_COMMAND.newDestination);
    encodeServiceId(writer, { address: unspecified(serviceFamily), port: 0, protocol: 'TCP' });
    const destination = { address: unspecified(family), port: 0, weight: 0 };
    encodeNest(writer, IPVS_CMD_ATTR_DEST, DESTINATION[family], destination);
    writer.end();
  });
  const inService = (id: number): number => offset(ATTRIBUTES, IPVS_CMD_ATTR_SERVICE, id);
  const { rows } = DESTINATION[family];
  const inDestination = (name: Exclude<keyof typeof rows, 'family'>): number =>
    offset(ATTRIBUTES, IPVS_CMD_ATTR_DEST, rows[name].id);
  return {
    words,
    protocol: inService(SERVICE_ID_ROWS.protocol),
    serviceAddress: inService(SERVICE_ID_ROWS.address),
    servicePort: inService(SERVICE_ID_ROWS.port),
    address: inDestination('address'),
    port: inDestination('port'),
    forwarding: inDestination('forwarding'),
    weight: inDestination('weight'),
    upperThreshold: inDestination('upperThreshold'),
    lowerThreshold: inDestination('lowerThreshold'),
  };
}

function unspecified(family: IpFamily): IpAddress {
  return (family === 4 ? 0 : 0n) as IpAddress;
}

const ATTRIBUTES = MESSAGE_HEADER_SIZE + GENERIC_HEADER_SIZE;
/** By the family of the virtual server, then of the destination; created on first use. */
const LAYOUTS: Record<IpFamily, Partial<Record<IpFamily, Layout>>> = { 4: {}, 6: {} };

function encodeDestination(
  writer: MessageWriter,
  familyId: number,
  command: IpvsCommand,
  service: IpvsServiceId,
  destination: IpvsDestination,
): number {
  const { address, port, weight, forwarding = 0, upperThreshold = 0, lowerThreshold = 0 } = destination;
  const serviceFamily = familyOf(service.address);
  const family = familyOf(address);
  const layout = (LAYOUTS[serviceFamily][family] ??= layoutOf(serviceFamily, family));
  const at = writer.beginCopy(familyId, layout.words);
  writer.patchU8(at + MESSAGE_HEADER_SIZE, command);
  writer.patchU16(at + layout.protocol, PROTOCOL_NUMBER[service.protocol]);
  writer.patchAddress(at + layout.serviceAddress, service.address);
  writer.patchBe16(at + layout.servicePort, service.port);
  writer.patchAddress(at + layout.address, address);
  writer.patchBe16(at + layout.port, port);
  writer.patchU32(at + layout.forwarding, forwarding);
  writer.patchU32(at + layout.weight, weight);
  writer.patchU32(at + layout.upperThreshold, upperThreshold);
  writer.patchU32(at + layout.lowerThreshold, lowerThreshold);
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

/** ENOENT if it does not exist, ESRCH if the service does not exist. */
export function editDestination(
  writer: MessageWriter,
  familyId: number,
  service: IpvsServiceId,
  destination: IpvsDestination,
): number {
  return encodeDestination(writer, familyId, IPVS_COMMAND.setDestination, service, destination);
}

/** ENOENT if it does not exist, ESRCH if the service does not exist. */
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
  readGenericCommand(payload);
  const start = findPayload(payload, GENERIC_HEADER_SIZE, payload.length, IPVS_CMD_ATTR_DEST);
  if (start < 0) throw new DecodeError('IPVS_CMD_ATTR_DEST', GENERIC_HEADER_SIZE, 'missing');
  const end = payloadEnd(payload, start);
  return decode(OBSERVED[destinationFamily(payload, start, end) ?? serviceFamily], payload, start, end);
}

function destinationFamily(payload: Uint8Array, start: number, end: number): IpFamily | undefined {
  const at = findPayload(payload, start, end, IPVS_DEST_ATTR_ADDR_FAMILY);
  if (at < 0) return undefined;
  const family = payloadEnd(payload, at) - at === 2 ? ipFamily(readU16(payload, at)) : undefined;
  if (family === undefined) throw new DecodeError('IPVS_DEST_ATTR_ADDR_FAMILY', at, 'neither IPv4 nor IPv6');
  return family;
}
