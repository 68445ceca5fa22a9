import { beginGeneric } from '../../codec/generic-message.ts';
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
  setInfo: 14,
  getInfo: 15,
  flush: 17,
} as const;

export type IpvsCommand = (typeof IPVS_COMMAND)[keyof typeof IPVS_COMMAND];

/** linux/ip_vs.h: IPVS_CMD_ATTR_SERVICE, IPVS_CMD_ATTR_DEST: the nests at the first level. */
export const IPVS_CMD_ATTR_SERVICE = 1;
export const IPVS_CMD_ATTR_DEST = 2;

/** Begins an IPVS message; `familyId` is what genl-ctrl resolved for IPVS_FAMILY_NAME. */
export function beginIpvs(writer: MessageWriter, familyId: number, command: IpvsCommand): void {
  beginGeneric(writer, familyId, command, IPVS_VERSION);
}

/** Removes every virtual server of this network namespace. */
export function flushServices(writer: MessageWriter, familyId: number): number {
  beginIpvs(writer, familyId, IPVS_COMMAND.flush);
  return writer.end();
}
