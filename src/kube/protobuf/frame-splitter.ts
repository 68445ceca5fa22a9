import { Gatherer } from './gatherer.ts';
import { WireError } from './wire-reader.ts';

const PREFIX = 4;

/** An event begins with its type, field 1. With this check, what is not an event is not taken for a long frame. */
const FIRST_TAG = 0x0a;

/** Splits the bytes of a watch into its frames: a length of four bytes, big-endian, and as many bytes. */
export class FrameSplitter {
  readonly #limit: number;
  readonly #gatherer = new Gatherer();

  /** @param limit maximum number of bytes of a frame */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Whether the bytes so far end within a frame. */
  get withinFrame(): boolean {
    return this.#gatherer.length > 0;
  }

  /** Yields the frames that this chunk completes; each may be read until `feed` goes on. Throws a WireError. */
  *feed(chunk: Buffer): Generator<Buffer> {
    const bytes = this.#gatherer.add(chunk);
    if (bytes === undefined) return;
    let at = 0;
    let needed = PREFIX + 1;
    while (bytes.length - at > PREFIX) {
      const length = bytes.readUInt32BE(at);
      if (bytes[at + PREFIX] !== FIRST_TAG || length === 0) throw new WireError('a frame has no event');
      if (length > this.#limit) throw new WireError(`an event has more than ${this.#limit} bytes`);
      needed = PREFIX + length;
      if (bytes.length - at < needed) break;
      yield bytes.subarray(at + PREFIX, at + needed);
      at += needed;
      needed = PREFIX + 1;
    }
    this.#gatherer.keep(bytes.subarray(at), needed);
  }
}
