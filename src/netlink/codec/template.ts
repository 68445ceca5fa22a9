import { findPayload, payloadEnd } from './decode.ts';
import { DecodeError } from './decode-error.ts';
import { MessageWriter } from './message-writer.ts';

/**
 * A message, or attributes, in which everything has its place: written once by the tables, then copied, and what differs patched
 * over it. Several times as fast as the tables (docs/profiles-netlink.md), and worth its lines where messages come by the ten thousand.
 */
export interface Template {
  /** Whole words of 4 bytes, as they lie in memory. */
  readonly words: Uint32Array;
  /**
   * Where the payload of an attribute starts, in bytes from the template's start: of the first id among the attributes behind `from`
   * bytes, of the next in its nest, and so on. -1 where there is none.
   */
  readonly offset: (from: number, ...ids: readonly number[]) => number;
}

/** `write` begins with a message or an attribute. */
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
