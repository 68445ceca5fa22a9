import { decode, encode, type Encodable, optional, table } from '../../codec/attribute-table.ts';
import { GENERIC } from '../../codec/header.ts';
import { u32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';
import { IPVS_COMMAND, beginIpvs } from './message.ts';

export const CONFIG = table({
  tcp: optional('IPVS_CMD_ATTR_TIMEOUT_TCP', 4, u32),
  tcpFin: optional('IPVS_CMD_ATTR_TIMEOUT_TCP_FIN', 5, u32),
  udp: optional('IPVS_CMD_ATTR_TIMEOUT_UDP', 6, u32),
});

/** Connection timeouts in seconds; undefined if not set or not reported. The kernel ignores a timeout of 0. */
export type IpvsConfig = Encodable<typeof CONFIG.rows>;

export function setConfig(writer: MessageWriter, familyId: number, config: IpvsConfig): number {
  beginIpvs(writer, familyId, IPVS_COMMAND.setConfig);
  encode(writer, CONFIG, config);
  return writer.end();
}

/** Writes a request for the timeouts. `decodeConfig` decodes the reply. */
export function getConfig(writer: MessageWriter, familyId: number): number {
  beginIpvs(writer, familyId, IPVS_COMMAND.getConfig);
  return writer.end();
}

/** Throws DecodeError. */
export function decodeConfig(payload: Uint8Array): IpvsConfig {
  return decode(CONFIG, payload, GENERIC.size);
}
