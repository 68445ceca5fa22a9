import { type IpAddress, type IpFamily, familyOf } from '../../../base/ip.ts';
import { type Protocol, protocolFromNumber } from '../../../base/protocol.ts';
import { addressFamily, ipFamily } from '../../codec/address-family.ts';
import {
  decode,
  encodeNest,
  nested,
  constant,
  fallback,
  optional,
  required,
  table,
  traced,
} from '../../codec/attribute-table.ts';
import { DecodeError, MISSING } from '../../codec/decode-error.ts';
import { be16, inetAddress, text, u16, u32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { IPVS_CMD_ATTR_SERVICE, IPVS_COMMAND, type IpvsCommand, beginIpvs, readNests } from './message.ts';
import { persistencePrefix, protocol, serviceFlags } from './service-kind.ts';
import { STATS, STATS64 } from './stats.ts';

/** Identifies a virtual server that is not defined by a firewall mark. */
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
    // Some kernels omit this attribute.
    prefix: fallback('IPVS_SVC_ATTR_NETMASK', 9, persistencePrefix(family), family === 4 ? 32 : 128),
    stats: traced('IPVS_SVC_ATTR_STATS', 10, nested(STATS)),
    stats64: traced('IPVS_SVC_ATTR_STATS64', 12, nested(STATS64)),
  });
}

const ID = { 4: table(idRows(4)), 6: table(idRows(6)) };
export const SERVICE = { 4: serviceTable(4), 6: serviceTable(6) };
/**
 * The attributes that decide how a virtual server is decoded: the family selects the table. A virtual server that is
 * defined by a firewall mark has no protocol, and is not decoded.
 */
const SELECTORS = table({
  family: required('IPVS_SVC_ATTR_AF', 1, u16),
  protocol: optional('IPVS_SVC_ATTR_PROTOCOL', 2, u16),
  mark: optional('IPVS_SVC_ATTR_FWMARK', 5, u32),
});

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

/** Sets scheduler, flags, timeout and prefix of a virtual server; ESRCH if it does not exist. */
export function editService(writer: MessageWriter, familyId: number, service: IpvsService): number {
  return encodeService(writer, familyId, IPVS_COMMAND.setService, service);
}

/** Deletes a virtual server with its destinations; ESRCH if it does not exist. */
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
 * Decodes one reply message. Returns undefined for a virtual server without an IpvsServiceId (one defined by a firewall
 * mark, or of another protocol). Throws DecodeError.
 */
export function decodeService(payload: Uint8Array): IpvsService | undefined {
  const { service } = readNests(payload);
  if (service === undefined) throw new DecodeError('IPVS_CMD_ATTR_SERVICE', 0, MISSING);
  const selectors = decode(SELECTORS, service);
  if (selectors.protocol === undefined || protocolFromNumber(selectors.protocol) === undefined) return undefined;
  const family = ipFamily(selectors.family);
  if (family === undefined) throw new DecodeError('IPVS_SVC_ATTR_AF', 0, 'neither IPv4 nor IPv6');
  return decode(SERVICE[family], service);
}

/** Returns the family and the mark of a virtual server that is defined by a firewall mark; undefined for others. */
export function decodeMark(payload: Uint8Array): { readonly family: IpFamily; readonly mark: number } | undefined {
  const { service } = readNests(payload);
  if (service === undefined) throw new DecodeError('IPVS_CMD_ATTR_SERVICE', 0, MISSING);
  const { family: number, mark } = decode(SELECTORS, service);
  const family = ipFamily(number);
  return family === undefined || mark === undefined ? undefined : { family, mark };
}
