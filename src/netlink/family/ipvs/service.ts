import { type IpAddress, type IpFamily, familyOf } from '../../../base/ip.ts';
import { type Protocol, protocolFromNumber } from '../../../base/protocol.ts';
import { addressFamily, ipFamily } from '../../codec/address-family.ts';
import { readU16 } from '../../codec/bytes.ts';
import { decode, findPayload, payloadEnd } from '../../codec/decode.ts';
import { DecodeError } from '../../codec/decode-error.ts';
import { encodeNest } from '../../codec/encode.ts';
import { GENERIC_HEADER_SIZE, readGenericCommand } from '../../codec/generic-message.ts';
import { be16, inetAddress, text, u16, u32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { constant, fallback, required, table } from '../../codec/table.ts';
import { IPVS_CMD_ATTR_SERVICE, IPVS_COMMAND, type IpvsCommand, beginIpvs } from './command.ts';
import { persistencePrefix, protocol, serviceFlags } from './service-kind.ts';

/** Identifies a virtual server (except those by firewall mark). */
export interface IpvsServiceId {
  readonly address: IpAddress;
  /** 0: all ports. */
  readonly port: number;
  readonly protocol: Protocol;
}

export interface IpvsService extends IpvsServiceId {
  /** Name of the scheduler's module without "ip_vs_". */
  readonly scheduler: string;
  /** IP_VS_SVC_F_*; the kernel sets IP_VS_SVC_F_HASHED (2) itself and ignores it in requests. */
  readonly flags: number;
  /** Persistence timeout in seconds; 0 without IP_VS_SVC_F_PERSISTENT. */
  readonly timeout: number;
  /** Persistence granularity as a prefix length; 32 or 128 for single clients. */
  readonly prefix: number;
}

function idRows(family: IpFamily) {
  return {
    family: constant('IPVS_SVC_ATTR_AF', 1, u16, addressFamily(family)),
    protocol: required('IPVS_SVC_ATTR_PROTOCOL', 2, protocol),
    address: required('IPVS_SVC_ATTR_ADDR', 3, inetAddress(family)),
    port: required('IPVS_SVC_ATTR_PORT', 4, be16),
  };
}

function serviceTable(family: IpFamily) {
  return table({
    ...idRows(family),
    scheduler: required('IPVS_SVC_ATTR_SCHED_NAME', 6, text),
    flags: fallback('IPVS_SVC_ATTR_FLAGS', 7, serviceFlags, 0),
    timeout: fallback('IPVS_SVC_ATTR_TIMEOUT', 8, u32, 0),
    // Some kernels omit it.
    prefix: fallback('IPVS_SVC_ATTR_NETMASK', 9, persistencePrefix(family), family === 4 ? 32 : 128),
  });
}

const ID = { 4: table(idRows(4)), 6: table(idRows(6)) };
export const SERVICE = { 4: serviceTable(4), 6: serviceTable(6) };
/** Ids of the attributes that identify a virtual server, for templates. */
export const SERVICE_ID_ROWS = { protocol: 2, address: 3, port: 4 } as const;
/** linux/ip_vs.h: the IPVS_SVC_ATTR_* that are read before the family is known. */
const IPVS_SVC_ATTR_AF = 1;
const IPVS_SVC_ATTR_PROTOCOL = 2;
const IPVS_SVC_ATTR_FWMARK = 5;

/** Appends the attribute that identifies a virtual server; commands on its destinations need it too. */
export function encodeServiceId(writer: MessageWriter, id: IpvsServiceId): void {
  encodeNest(writer, IPVS_CMD_ATTR_SERVICE, ID[familyOf(id.address)], id);
}

function encodeService(writer: MessageWriter, familyId: number, command: IpvsCommand, service: IpvsService): number {
  beginIpvs(writer, familyId, command);
  encodeNest(writer, IPVS_CMD_ATTR_SERVICE, SERVICE[familyOf(service.address)], service);
  return writer.end();
}

/** EEXIST if the virtual server exists, ENOENT if the scheduler does not (the kernel tries to load its module). */
export function addService(writer: MessageWriter, familyId: number, service: IpvsService): number {
  return encodeService(writer, familyId, IPVS_COMMAND.newService, service);
}

/** Sets scheduler, flags, timeout and prefix; ESRCH if it does not exist. */
export function editService(writer: MessageWriter, familyId: number, service: IpvsService): number {
  return encodeService(writer, familyId, IPVS_COMMAND.setService, service);
}

/** Deletes it with its destinations; ESRCH if it does not exist. */
export function deleteService(writer: MessageWriter, familyId: number, id: IpvsServiceId): number {
  beginIpvs(writer, familyId, IPVS_COMMAND.deleteService);
  encodeServiceId(writer, id);
  return writer.end();
}

/** Writes a request for one virtual server; ESRCH if it does not exist. `decodeService` decodes the reply. */
export function getService(writer: MessageWriter, familyId: number, id: IpvsServiceId): number {
  beginIpvs(writer, familyId, IPVS_COMMAND.getService);
  encodeServiceId(writer, id);
  return writer.end();
}

/** Writes a request for all virtual servers of both families. `decodeService` decodes each reply message. */
export function dumpServices(writer: MessageWriter, familyId: number): number {
  beginIpvs(writer, familyId, IPVS_COMMAND.getService);
  return writer.endDump();
}

/**
 * Decodes one reply message. Returns undefined for a virtual server without an IpvsServiceId (by firewall mark, or of
 * another protocol). Throws DecodeError.
 */
export function decodeService(payload: Uint8Array): IpvsService | undefined {
  readGenericCommand(payload);
  const start = findPayload(payload, GENERIC_HEADER_SIZE, payload.length, IPVS_CMD_ATTR_SERVICE);
  if (start < 0) throw new DecodeError('IPVS_CMD_ATTR_SERVICE', GENERIC_HEADER_SIZE, 'missing');
  const end = payloadEnd(payload, start);
  if (findPayload(payload, start, end, IPVS_SVC_ATTR_FWMARK) >= 0) return undefined;
  const number = peek(payload, start, end, IPVS_SVC_ATTR_PROTOCOL, 'IPVS_SVC_ATTR_PROTOCOL');
  if (protocolFromNumber(number) === undefined) return undefined;
  const family = ipFamily(peek(payload, start, end, IPVS_SVC_ATTR_AF, 'IPVS_SVC_ATTR_AF'));
  if (family === undefined) throw new DecodeError('IPVS_SVC_ATTR_AF', start, 'neither IPv4 nor IPv6');
  return decode(SERVICE[family], payload, start, end);
}

function peek(payload: Uint8Array, start: number, end: number, id: number, what: string): number {
  const at = findPayload(payload, start, end, id);
  if (at < 0) throw new DecodeError(what, start, 'missing');
  if (payloadEnd(payload, at) - at !== 2) throw new DecodeError(what, at, 'not 2 bytes');
  return readU16(payload, at);
}
