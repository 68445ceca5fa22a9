import { decode, optional, table } from '../../codec/attribute-table.ts';
import { GENERIC, beginMessage } from '../../codec/header.ts';
import { raw } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';

/** linux/ip_vs.h: IPVS_GENL_NAME, IPVS_GENL_VERSION. */
export const IPVS_FAMILY_NAME = 'IPVS';
const IPVS_VERSION = 1;

/** linux/ip_vs.h: IPVS_CMD_*. */
export const IPVS_COMMAND = {
  newService: 1,
  setService: 2,
  deleteService: 3,
  getService: 4,
  newDestination: 5,
  setDestination: 6,
  deleteDestination: 7,
  getDestination: 8,
  setConfig: 12,
  getConfig: 13,
} as const;

export type IpvsCommand = (typeof IPVS_COMMAND)[keyof typeof IPVS_COMMAND];

/** linux/ip_vs.h: the top-level nested attributes. */
export const IPVS_CMD_ATTR_SERVICE = 1;
export const IPVS_CMD_ATTR_DEST = 2;

/**
 * Both attributes are read as raw bytes first: the table that decodes them depends on the IP family, which is an
 * attribute inside them.
 */
const NESTS = table({
  service: optional('IPVS_CMD_ATTR_SERVICE', IPVS_CMD_ATTR_SERVICE, raw),
  destination: optional('IPVS_CMD_ATTR_DEST', IPVS_CMD_ATTR_DEST, raw),
});

/** Begins an IPVS message. `familyId` is what `decodeFamily` returned for IPVS_FAMILY_NAME. */
export function beginIpvs(writer: MessageWriter, familyId: number, command: IpvsCommand): void {
  beginMessage(writer, familyId, GENERIC, { cmd: command, version: IPVS_VERSION });
}

/** Returns the attributes of the virtual server and of the destination in a reply. Throws DecodeError. */
export function readNests(payload: Uint8Array): {
  service: Uint8Array | undefined;
  destination: Uint8Array | undefined;
} {
  return decode(NESTS, payload, GENERIC.size);
}
