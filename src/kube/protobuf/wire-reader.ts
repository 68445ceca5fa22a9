import type { Interner } from '../objects/interner.ts';

/** The bytes are not valid Protocol Buffers, or not those of the expected message. */
export class WireError extends Error {
  override readonly name = 'WireError';
}

/** Wire types (protobuf.dev, "Encoding"). The API of Kubernetes has no groups, 3 and 4. */
export const WIRE = { varint: 0, fixed64: 1, length: 2, fixed32: 5 } as const;

/** The bit of a byte that says that the number goes on in the next byte. */
const MORE = 0x80;
const MAX_FIELD_NUMBER = 2 ** 29 - 1;

/** Reads values from untrusted bytes, in order. Throws a WireError. */
export class WireReader {
  readonly #bytes: Buffer;
  readonly #interner: Interner | undefined;
  /** Position of the next byte. */
  at = 0;

  constructor(bytes: Buffer, interner: Interner | undefined) {
    this.#bytes = bytes;
    this.#interner = interner;
  }

  /** Reads the number of a field times 8 plus its wire type. */
  tag(): number {
    const tag = this.integer();
    if (tag < 8 || tag > MAX_FIELD_NUMBER * 8 + 7) throw new WireError('a field has an invalid number');
    return tag;
  }

  /** Reads an int32 or int64: two's complement of 64 bits. */
  integer(): number {
    const first = this.#byte();
    if (first < MORE) return first;
    // The operators for bits have 32 bits, so the number is read in parts of 28, 28 and 8 bits.
    let low = first & 0x7f;
    for (let shift = 7; shift < 28; shift += 7) {
      const byte = this.#byte();
      low |= (byte & 0x7f) << shift;
      if (byte < MORE) return low;
    }
    let middle = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = this.#byte();
      middle |= (byte & 0x7f) << shift;
      if (byte < MORE) return exact(middle * 2 ** 28 + low);
    }
    const ninth = this.#byte();
    const tenth = ninth < MORE ? 0 : this.#byte();
    if (tenth > 1) throw new WireError('an integer has more than 64 bits');
    const high = (((ninth & 0x7f) | (tenth << 7)) << 24) >> 24;
    return exact((high * 2 ** 28 + middle) * 2 ** 28 + low);
  }

  flag(): boolean {
    const start = this.at;
    this.#skipInteger();
    // Any number but zero is true, of any size.
    for (let at = start; at < this.at; at++) if (((this.#bytes[at] ?? 0) & 0x7f) !== 0) return true;
    return false;
  }

  /** Reads the length of a value. Returns the position of its end, which is at most `limit`. */
  end(limit: number): number {
    const end = this.integer() + this.at;
    if (end < this.at || end > limit) throw new WireError('a value is longer than what holds it');
    return end;
  }

  text(end: number): string {
    const text = this.#bytes.toString('utf8', this.at, end);
    this.at = end;
    return text;
  }

  /** Reads a text that many objects repeat. */
  repeatedText(end: number): string {
    if (this.#interner === undefined) return this.text(end);
    const text = this.#interner.ofBytes(this.#bytes, this.at, end);
    this.at = end;
    return text;
  }

  /** Returns a view, not a copy. */
  bytes(end: number): Buffer {
    const bytes = this.#bytes.subarray(this.at, end);
    this.at = end;
    return bytes;
  }

  skip(wireType: number, limit: number): void {
    if (wireType === WIRE.varint) this.#skipInteger();
    else if (wireType === WIRE.length) this.at = this.end(limit);
    else if (wireType === WIRE.fixed64) this.at += 8;
    else if (wireType === WIRE.fixed32) this.at += 4;
    else throw new WireError(`a field has the wire type ${wireType}`);
  }

  #skipInteger(): void {
    for (let left = 10; left > 0; left--) if (this.#byte() < MORE) return;
    throw new WireError('an integer has more than 64 bits');
  }

  #byte(): number {
    const byte = this.#bytes[this.at++];
    if (byte === undefined) throw new WireError('the bytes end within a number');
    return byte;
  }
}

function exact(value: number): number {
  if (!Number.isSafeInteger(value)) throw new WireError('an integer has more than 53 bits');
  return value;
}
