import { decode } from '../../codec/decode.ts';
import { GENERIC_HEADER_SIZE, readGenericCommand } from '../../codec/generic-message.ts';
import { u32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { required, table } from '../../codec/table.ts';
import { IPVS_COMMAND, beginIpvs } from './command.ts';

export interface IpvsInfo {
  /** IP_VS_VERSION_CODE: 0x010201 is 1.2.1. */
  readonly version: number;
  /** Buckets of the connection table. */
  readonly connectionTableSize: number;
}

const INFO = table({
  version: required('IPVS_INFO_ATTR_VERSION', 1, u32),
  connectionTableSize: required('IPVS_INFO_ATTR_CONN_TAB_SIZE', 2, u32),
});

/** The answer is for `decodeInfo`. */
export function getInfo(writer: MessageWriter, familyId: number): number {
  beginIpvs(writer, familyId, IPVS_COMMAND.getInfo);
  return writer.end();
}

/** Throws DecodeError. */
export function decodeInfo(payload: Uint8Array): IpvsInfo {
  readGenericCommand(payload);
  return decode(INFO, payload, GENERIC_HEADER_SIZE);
}
