import { MESSAGE_HEADER_SIZE } from '../../codec/flags.ts';
import { MessageWriter } from '../../codec/message-writer.ts';
import type { NftData } from './data.ts';
import { type NftElement, elementList } from './element.ts';

/** Bytes of the elements in one message: the length of an attribute has 16 bits. */
const BYTES_PER_MESSAGE = 60_000;
const FIRST_CAPACITY = 512;

/** The bytes of an element, of which the next one differs in its key and value only. */
interface Pattern {
  readonly bytes: Uint8Array;
  readonly keyLength: number;
  readonly data: NftData | undefined;
}

/** In an element: its header, and those of the key and of its value. */
const KEY_AT = 12;

/**
 * Elements of one set as the bytes of their attributes, in the order in which they were added. Objects would take ten
 * times the memory, and encoding each from its attribute table most of the time of a first sync. All keys have the same
 * length, and so have all values.
 */
export class ElementList implements Iterable<NftElement> {
  #bytes = new Uint8Array(FIRST_CAPACITY);
  #length = 0;
  #size = 0;
  /** Where the elements of the second and later messages begin. */
  readonly #cuts: number[] = [];
  #pattern: Pattern | undefined;

  /** The number of elements. */
  get size(): number {
    return this.#size;
  }

  /** The number of bytes. */
  get byteLength(): number {
    return this.#length;
  }

  add(key: Uint8Array, data?: NftData): void {
    const pattern = this.#patternFor(key, data);
    const at = this.#append(pattern.bytes);
    this.#bytes.set(key, at + KEY_AT);
    // The value is the last attribute, padded to 4 bytes.
    if (data !== undefined && 'value' in data) {
      this.#bytes.set(data.value, this.#length - ((data.value.length + 3) & ~3));
    }
  }

  /** Yields the elements of one message after the other, encoded. */
  *messages(): Generator<Uint8Array, void, undefined> {
    let start = 0;
    for (const end of [...this.#cuts, this.#length]) {
      if (end > start) yield this.#bytes.subarray(start, end);
      start = end;
    }
  }

  [Symbol.iterator](): Iterator<NftElement> {
    return elementList.read(this.#bytes, 0, this.#length)[Symbol.iterator]();
  }

  #patternFor(key: Uint8Array, data: NftData | undefined): Pattern {
    if (this.#pattern?.keyLength === key.length && hasSamePattern(this.#pattern.data, data)) return this.#pattern;
    this.#pattern = { bytes: encoded({ key, data }), keyLength: key.length, data };
    return this.#pattern;
  }

  /** Returns where the appended bytes begin. */
  #append(bytes: Uint8Array): number {
    const at = this.#length;
    const end = at + bytes.length;
    if (end > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(end, 2 * this.#bytes.length));
      grown.set(this.#bytes);
      this.#bytes = grown;
    }
    if (end - (this.#cuts.at(-1) ?? 0) > BYTES_PER_MESSAGE) this.#cuts.push(at);
    this.#bytes.set(bytes, at);
    this.#length = end;
    this.#size += 1;
    return at;
  }
}

function hasSamePattern(a: NftData | undefined, b: NftData | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if ('value' in a) return 'value' in b && a.value.length === b.value.length;
  return 'verdict' in b && a.verdict.chain === b.verdict.chain && a.verdict.code === b.verdict.code;
}

function encoded(element: NftElement): Uint8Array {
  const writer = new MessageWriter({}, FIRST_CAPACITY);
  writer.begin(0);
  elementList.write(writer, [element]);
  writer.end();
  return writer.finish(1).bytes.slice(MESSAGE_HEADER_SIZE);
}
