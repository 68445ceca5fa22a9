import { type IpAddress, isIp4 } from '../../../base/ip.ts';
import type { Port } from '../../../base/port.ts';
import { addressFamily } from '../../codec/address-family.ts';
import { decode, encode, optional, reported, table } from '../../codec/attribute-table.ts';
import { GENERIC, beginMessage } from '../../codec/header.ts';
import { address, be16, u8 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';

/** linux/fou.h: FOU_GENL_NAME. */
export const FOU_FAMILY_NAME = 'fou';
const FOU_GENL_VERSION = 1;

/** linux/fou.h: FOU_CMD_*. */
const FOU_COMMAND = { add: 1, delete: 2, get: 3 } as const;
/** linux/fou.h: FOU_ENCAP_GUE. */
const FOU_ENCAP_GUE = 2;

const PORT = table({
  port: reported('FOU_ATTR_PORT', 1, be16),
  family: optional('FOU_ATTR_AF', 2, u8),
  type: optional('FOU_ATTR_TYPE', 4, u8),
  local4: optional('FOU_ATTR_LOCAL_V4', 6, address),
  local6: optional('FOU_ATTR_LOCAL_V6', 7, address),
});

interface BoundPort {
  readonly port: Port;
  readonly local: IpAddress;
}

/** Receives GUE at a UDP port of a local address; EADDRINUSE if a socket has it, EALREADY if it receives already. */
export function addGuePort(writer: MessageWriter, familyId: number, port: BoundPort): number {
  return writePort(writer, familyId, FOU_COMMAND.add, port);
}

/** ENOENT if nothing is received there. */
export function deleteGuePort(writer: MessageWriter, familyId: number, port: BoundPort): number {
  return writePort(writer, familyId, FOU_COMMAND.delete, port);
}

function writePort(
  writer: MessageWriter,
  familyId: number,
  cmd: (typeof FOU_COMMAND)['add' | 'delete'],
  { port, local }: BoundPort,
): number {
  beginMessage(writer, familyId, GENERIC, { cmd, version: FOU_GENL_VERSION });
  const [family, bound] = isIp4(local) ? ([4, { local4: local }] as const) : ([6, { local6: local }] as const);
  encode(writer, PORT, { port, family: addressFamily(family), type: FOU_ENCAP_GUE, ...bound });
  return writer.end();
}

/** Writes a request for all ports of both IP families. `decodeGuePort` decodes each reply. */
export function dumpGuePorts(writer: MessageWriter, familyId: number): number {
  beginMessage(writer, familyId, GENERIC, { cmd: FOU_COMMAND.get, version: FOU_GENL_VERSION });
  return writer.endDump();
}

/** Returns undefined for a port that receives something other than GUE. Throws DecodeError. */
export function decodeGuePort(payload: Uint8Array): BoundPort | undefined {
  const { port, type, local4, local6 } = decode(PORT, payload, GENERIC.size);
  const local = local4 ?? local6;
  return type !== FOU_ENCAP_GUE || local === undefined ? undefined : { port: port as Port, local };
}
