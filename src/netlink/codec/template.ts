import { findPayload, payloadEnd } from './decode.ts';
import { DecodeError } from './decode-error.ts';
import { MessageWriter } from './message-writer.ts';

/**
 * A message, or attributes, encoded once from the tables. The caller copies it and patches the values that differ:
 * several times as fast as encoding from the tables (docs/profiles-netlink.md), for messages sent by the ten thousand.
 */
export interface Template {
  /** 4-byte words, in memory order. */
  readonly words: Uint32Array;
  /**
   * Returns the offset of an attribute's payload in bytes from the start of the template, or -1. `ids` is the path of
   * nested attributes; the search for the first id starts at offset `from`.
   */
  readonly offset: (from: number, ...ids: readonly number[]) => number;
}

/** `write` must first begin a message or an attribute. */
export function template(write: (writer: MessageWriter) => void): Template {
  const writer = new MessageWriter({}, 256);
  write(writer);
  const bytes = writer.written.slice();
  if (bytes.length % 4 !== 0) throw new DecodeError('template', 0, `${bytes.length} bytes`);
  const offset = (from: number, ...ids: readonly number[]): number => {
    let start = from;
    let end = bytes.length;
    for (const id of ids) {
      start = findPayload(bytes, start, end, id);
      if (start < 0) return -1;
      end = payloadEnd(bytes, start);
    }
    return start;
  };
  return { words: new Uint32Array(bytes.buffer), offset };
}
