import { MESSAGE_HEADER_SIZE, align4 } from '../../codec/flags.ts';
import { MessageWriter } from '../../codec/message-writer.ts';
import type { NftData } from './data.ts';
import { type NftElement, elementList } from './element.ts';

/** Bytes of the elements in one message: the length of an attribute has 16 bits. */
const BYTES_PER_MESSAGE = 60_000;
const FIRST_CAPACITY = 512;

/** The bytes of an element. The next one differs only in key and value, so it is copied from these. */
interface Pattern {
  readonly bytes: Uint8Array;
  readonly keyLength: number;
  readonly data: NftData | undefined;
  readonly isEnd: boolean;
}

/** Offset of the key in an encoded element: after three attribute headers. */
const KEY_AT = 12;

/**
 * Elements of one set as the bytes of their attributes, in the order in which they were added. Objects would take ten
 * times the memory, and encoding each from its attribute table most of the time of a first sync.
 */
export class ElementList implements Iterable<NftElement> {
  /** The elements of each message but the last. */
  readonly #full: Uint8Array[] = [];
  #last = new Uint8Array(FIRST_CAPACITY);
  #used = 0;
  #size = 0;
  #pattern: Pattern | undefined;
  /** The pattern before that one, because beginnings and ends of intervals alternate. */
  #otherPattern: Pattern | undefined;

  get size(): number {
    return this.#size;
  }

  /** The encoded elements of each message. */
  get messages(): readonly Uint8Array[] {
    return [...this.#full, this.#last.subarray(0, this.#used)];
  }

  add(key: Uint8Array, data?: NftData, isEnd = false): void {
    const pattern = this.#patternFor(key, data, isEnd);
    const { length } = pattern.bytes;
    this.#reserve(length);
    this.#last.set(pattern.bytes, this.#used);
    this.#last.set(key, this.#used + KEY_AT);
    this.#used += length;
    this.#size += 1;
    // The value is the last attribute, padded to 4 bytes.
    if (data !== undefined && 'value' in data) this.#last.set(data.value, this.#used - align4(data.value.length));
  }

  [Symbol.iterator](): Iterator<NftElement> {
    return this.messages.flatMap((bytes) => elementList.read(bytes, 0, bytes.length))[Symbol.iterator]();
  }

  #patternFor(key: Uint8Array, data: NftData | undefined, isEnd: boolean): Pattern {
    const last = this.#pattern;
    if (last !== undefined && isOf(last, key, data, isEnd)) return last;
    const other = this.#otherPattern;
    this.#otherPattern = last;
    this.#pattern =
      other !== undefined && isOf(other, key, data, isEnd)
        ? other
        : { bytes: encoded({ key, data, isEnd }), keyLength: key.length, data, isEnd };
    return this.#pattern;
  }

  #reserve(count: number): void {
    const needed = this.#used + count;
    if (needed <= this.#last.length) return;
    const used = this.#last.subarray(0, this.#used);
    if (needed <= BYTES_PER_MESSAGE) {
      this.#last = new Uint8Array(Math.min(BYTES_PER_MESSAGE, 4 * this.#last.length));
      this.#last.set(used);
    } else {
      this.#full.push(used);
      this.#last = new Uint8Array(BYTES_PER_MESSAGE);
      this.#used = 0;
    }
  }
}

function isOf(pattern: Pattern, key: Uint8Array, data: NftData | undefined, isEnd: boolean): boolean {
  return pattern.keyLength === key.length && pattern.isEnd === isEnd && hasSamePattern(pattern.data, data);
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
