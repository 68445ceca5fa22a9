import { decode } from '../../codec/decode.ts';
import { encode } from '../../codec/encode.ts';
import { GENERIC_HEADER_SIZE, readGenericCommand } from '../../codec/generic-message.ts';
import { u32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { optional, table } from '../../codec/table.ts';
import { IPVS_COMMAND, beginIpvs } from './command.ts';

/** Timeouts of connections, in seconds. Undefined: not set, or not said. The kernel takes 0 for "as it is". */
export interface IpvsConfig {
  readonly tcp?: number | undefined;
  readonly tcpFin?: number | undefined;
  readonly udp?: number | undefined;
}

const CONFIG = table({
  tcp: optional('IPVS_CMD_ATTR_TIMEOUT_TCP', 4, u32),
  tcpFin: optional('IPVS_CMD_ATTR_TIMEOUT_TCP_FIN', 5, u32),
  udp: optional('IPVS_CMD_ATTR_TIMEOUT_UDP', 6, u32),
});

export function setConfig(writer: MessageWriter, familyId: number, config: IpvsConfig): number {
  beginIpvs(writer, familyId, IPVS_COMMAND.setConfig);
  encode(writer, CONFIG, config);
  return writer.end();
}

/** The answer is for `decodeConfig`. */
export function getConfig(writer: MessageWriter, familyId: number): number {
  beginIpvs(writer, familyId, IPVS_COMMAND.getConfig);
  return writer.end();
}

/** Throws DecodeError. */
export function decodeConfig(payload: Uint8Array): IpvsConfig {
  readGenericCommand(payload);
  return decode(CONFIG, payload, GENERIC_HEADER_SIZE);
}
