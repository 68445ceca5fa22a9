import { constants } from 'node:os';
import { decode } from '../../codec/decode.ts';
import { encode } from '../../codec/encode.ts';
import { GENERIC_HEADER_SIZE, beginGeneric, readGenericCommand } from '../../codec/generic-message.ts';
import { text, u16, u32 } from '../../codec/kind.ts';
import { MessageWriter } from '../../codec/message-writer.ts';
import { fallback, required, table } from '../../codec/table.ts';
import type { Connection } from '../../connection.ts';
import { answerOf, messages, refusal } from '../../message.ts';

/** A generic netlink family with the ID that the running kernel assigned. */
export interface GenericFamily {
  /** The message type of its commands. */
  readonly id: number;
  readonly name: string;
  readonly version: number;
}

/** The kernel has no generic netlink family of this name: its module is not loaded or not installed. */
export class FamilyMissingError extends Error {
  readonly family: string;

  constructor(family: string) {
    super(`the kernel has no generic netlink family ${family}: is its module loaded?`);
    this.name = 'FamilyMissingError';
    this.family = family;
  }
}

/** linux/genetlink.h: GENL_ID_CTRL, and the version that every client of it uses. */
export const GENL_ID_CTRL = 16;
const CONTROL_VERSION = 1;
const CTRL_CMD_GETFAMILY = 3;

const QUERY = table({ name: required('CTRL_ATTR_FAMILY_NAME', 2, text) });

export const FAMILY = table({
  id: required('CTRL_ATTR_FAMILY_ID', 1, u16),
  name: required('CTRL_ATTR_FAMILY_NAME', 2, text),
  version: fallback('CTRL_ATTR_VERSION', 3, u32, 1),
});

/** Writes a request for a family by name; ENOENT if the kernel does not have it. `decodeFamily` decodes the reply. */
export function getFamily(writer: MessageWriter, name: string): number {
  beginGeneric(writer, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CONTROL_VERSION);
  encode(writer, QUERY, { name });
  return writer.end();
}

/** Throws DecodeError. */
export function decodeFamily(payload: Uint8Array): GenericFamily {
  readGenericCommand(payload);
  return decode(FAMILY, payload, GENERIC_HEADER_SIZE);
}

/** Looks up a family by name. Rejects with a FamilyMissingError, a NetlinkError or a DecodeError. */
export async function resolveFamily(
  connection: Pick<Connection, 'sequence' | 'transact'>,
  name: string,
): Promise<GenericFamily> {
  const writer = new MessageWriter({}, 128);
  getFamily(writer, name);
  const { bytes, segments } = writer.finish(connection.sequence(1));
  for (const message of messages(await connection.transact(bytes, segments))) {
    if (message.type === GENL_ID_CTRL) return decodeFamily(message.payload);
    const answer = answerOf(message);
    if (answer !== undefined && answer.errno !== 0 && answer.errno !== constants.errno.ENOENT) {
      throw refusal('CTRL_CMD_GETFAMILY', answer, name);
    }
  }
  throw new FamilyMissingError(name);
}
