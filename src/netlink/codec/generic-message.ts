import { DecodeError } from './decode-error.ts';
import type { MessageWriter } from './message-writer.ts';

/** Size of struct genlmsghdr { u8 cmd; u8 version; u16 reserved }. linux/genetlink.h. */
export const GENERIC_HEADER_SIZE = 4;

/** Begins a message of a generic netlink family. */
export function beginGeneric(
  writer: MessageWriter,
  familyId: number,
  command: number,
  version: number,
  flags = 0,
): void {
  writer.begin(familyId, flags);
  writer.u8(command);
  writer.u8(version);
  writer.u16(0);
}

/** The command of a reply; the attributes start at GENERIC_HEADER_SIZE. */
export function readGenericCommand(payload: Uint8Array): number {
  const command = payload[0];
  if (command === undefined || payload.length < GENERIC_HEADER_SIZE) {
    throw new DecodeError('struct genlmsghdr', 0, `${payload.length} bytes`);
  }
  return command;
}
