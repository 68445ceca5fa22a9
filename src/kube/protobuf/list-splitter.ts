import { checkContent, LIST_META, MAGIC, RAW_TAG, UNKNOWN } from './envelope.ts';
import { Gatherer } from './gatherer.ts';
import { readMessage } from './message-table.ts';
import { WIRE, WireError } from './wire-reader.ts';

/** Fields of every list, of wire type "length". */
const META_TAG = 0x0a;
const ITEM_TAG = 0x12;

/** A field: where its value begins and ends. The bytes may end before. */
interface Span {
  readonly tag: number;
  readonly start: number;
  readonly end: number;
}

/**
 * Splits a list into its items while it arrives, so that they are read one at a time. A page may contain all objects of
 * the cluster: lists from the cache ignore the limit. Each method throws a WireError.
 */
export class ListSplitter {
  readonly #kind: string;
  readonly #limit: number;
  readonly #onItem: (raw: Buffer) => void;
  readonly #gatherer = new Gatherer();
  readonly #envelope = UNKNOWN.empty();
  readonly #meta = LIST_META.empty();
  /** Bytes of the list that have not been read; undefined outside of the list. */
  #left: number | undefined;
  #begun = false;
  #complete = false;

  constructor(kind: string, limit: number, onItem: (raw: Buffer) => void) {
    this.#kind = kind;
    this.#limit = limit;
    this.#onItem = onItem;
  }

  feed(chunk: Buffer): void {
    const bytes = this.#gatherer.add(chunk);
    if (bytes === undefined) return;
    let at = 0;
    if (!this.#begun) {
      if (bytes.length < MAGIC.length) return this.#gatherer.keep(bytes, MAGIC.length);
      at = this.#begin(bytes);
    }
    for (;;) {
      const span = spanAt(bytes, at);
      if (span === undefined) return this.#gatherer.keep(bytes.subarray(at), bytes.length - at + 1);
      if (this.#left === undefined && span.tag === RAW_TAG) {
        this.#enter(span);
        at = span.start;
        continue;
      }
      const size = span.end - at;
      if (size > (this.#left ?? size)) throw new WireError('a field is longer than its list');
      if (size > this.#limit) throw new WireError(`an object has more than ${this.#limit} bytes`);
      if (span.end > bytes.length) return this.#gatherer.keep(bytes.subarray(at), size);
      if (this.#left === undefined) readMessage(bytes.subarray(at, span.end), UNKNOWN, undefined, this.#envelope);
      else this.#readField(bytes.subarray(span.start, span.end), span.tag, size);
      at = span.end;
    }
  }

  /** Returns the metadata of the list after its last byte. */
  end(): { readonly resourceVersion: string; readonly next: string } {
    if (!this.#complete || this.#gatherer.length > 0) throw new WireError('the bytes end within the list');
    checkContent(this.#envelope);
    const { resourceVersion = '', continue: next = '' } = this.#meta;
    return { resourceVersion, next };
  }

  #begin(bytes: Buffer): number {
    if (!bytes.subarray(0, MAGIC.length).equals(MAGIC)) throw new WireError('the list does not begin with "k8s\\0"');
    this.#begun = true;
    return MAGIC.length;
  }

  #enter({ start, end }: Span): void {
    const { kind } = this.#envelope;
    if (kind !== this.#kind) throw new WireError(`a ${JSON.stringify(kind)} instead of a ${this.#kind}`);
    if (this.#complete) throw new WireError('there are two lists');
    this.#setLeft(end - start);
  }

  #readField(value: Buffer, tag: number, size: number): void {
    if (tag === ITEM_TAG) this.#onItem(value);
    else if (tag === META_TAG) readMessage(value, LIST_META, undefined, this.#meta);
    this.#setLeft((this.#left ?? 0) - size);
  }

  #setLeft(left: number): void {
    this.#complete = left === 0;
    this.#left = this.#complete ? undefined : left;
  }
}

/** Returns undefined if the bytes end before the value begins. */
function spanAt(bytes: Buffer, at: number): Span | undefined {
  const tagEnd = endOfNumber(bytes, at);
  if (tagEnd === undefined) return undefined;
  const tag = numberIn(bytes, at, tagEnd);
  const wireType = tag & 7;
  if (tag < 8) throw new WireError('a field has an invalid number');
  if (wireType !== WIRE.varint && wireType !== WIRE.length)
    throw new WireError(`a field of the list has the wire type ${wireType}`);
  const start = endOfNumber(bytes, tagEnd);
  if (start === undefined) return undefined;
  if (wireType === WIRE.varint) return { tag, start: tagEnd, end: start };
  return { tag, start, end: start + numberIn(bytes, tagEnd, start) };
}

/** Returns the position after a number; undefined if the bytes end within it. */
function endOfNumber(bytes: Buffer, start: number): number | undefined {
  for (let at = start; at < bytes.length; at++) {
    if (at - start === 10) throw new WireError('an integer has more than 64 bits');
    if ((bytes[at] ?? 0) < 0x80) return at + 1;
  }
  return undefined;
}

/** Returns a tag or a length, which have at most 32 bits. */
function numberIn(bytes: Buffer, start: number, end: number): number {
  let number = 0;
  for (let at = end - 1; at >= start; at--) number = number * 128 + ((bytes[at] ?? 0) & 0x7f);
  if (number >= 2 ** 32) throw new WireError('a length has more than 32 bits');
  return number;
}
