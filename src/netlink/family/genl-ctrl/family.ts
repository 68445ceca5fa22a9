import { decode, encode, reported, required, table, traced } from '../../codec/attribute-table.ts';
import { GENERIC, beginMessage } from '../../codec/header.ts';
import { text, u16, u32 } from '../../codec/kind.ts';
import type { MessageWriter } from '../../codec/message-writer.ts';

/** linux/genetlink.h: GENL_ID_CTRL, and the version that every client of it uses. */
export const GENL_ID_CTRL = 16;
const CONTROL_VERSION = 1;
const CTRL_CMD_GETFAMILY = 3;

export const FAMILY = table({
  id: reported('CTRL_ATTR_FAMILY_ID', 1, u16),
  name: required('CTRL_ATTR_FAMILY_NAME', 2, text),
  version: traced('CTRL_ATTR_VERSION', 3, u32),
});

/** Writes a request for a family by name; ENOENT if the kernel does not have it. `decodeFamily` decodes the reply. */
export function getFamily(writer: MessageWriter, name: string): number {
  beginMessage(writer, GENL_ID_CTRL, GENERIC, { cmd: CTRL_CMD_GETFAMILY, version: CONTROL_VERSION });
  encode(writer, FAMILY, { name });
  return writer.end();
}

/** Returns the message type of the family's commands, which the running kernel assigned. Throws DecodeError. */
export function decodeFamily(payload: Uint8Array): number {
  return decode(FAMILY, payload, GENERIC.size).id;
}
