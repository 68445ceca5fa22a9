/** A power of two. */
const SLOTS = 4_096;
/** Bytes of a text. */
const MAX_SLOT_LENGTH = 64;
/** Names have at most 253 characters. Longer texts, which the API server need not refuse, are not kept. */
const MAX_KEPT_LENGTH = 253;

/**
 * Keeps one copy of strings that many objects repeat (namespaces, node names, zones); JSON.parse creates a new one for
 * each occurrence. Clears the table when it is full: the strings are untrusted, so its size is limited.
 */
export class Interner {
  readonly #known = new Map<string, string>();
  readonly #limit: number;
  /** By the hash of its bytes, the text that `ofBytes` read last. */
  readonly #slots: string[] = Array.from({ length: SLOTS }, () => '');

  constructor(limit = 16_384) {
    this.#limit = limit;
  }

  intern(text: string): string {
    const known = this.#known.get(text);
    if (known !== undefined || text.length > MAX_KEPT_LENGTH) return known ?? text;
    if (this.#known.size >= this.#limit) this.#known.clear();
    this.#known.set(text, text);
    return text;
  }

  /** Returns the text in these bytes of UTF-8. Creates no string for a short one that was read lately. */
  ofBytes(bytes: Buffer, start: number, end: number): string {
    const length = end - start;
    let hash = length;
    let all = 0;
    for (let at = start; at < end && length <= MAX_SLOT_LENGTH; at++) {
      const byte = bytes[at] ?? 0;
      all |= byte;
      hash = (Math.imul(hash, 31) + byte) | 0;
    }
    // Bytes and characters can be compared only if all are ASCII.
    if (length > MAX_SLOT_LENGTH || all >= 0x80) return bytes.toString('utf8', start, end);
    const slot = (hash ^ (hash >>> 15)) & (SLOTS - 1);
    const known = this.#slots[slot] ?? '';
    let same = known.length === length;
    for (let at = 0; at < length && same; at++) same = known.charCodeAt(at) === bytes[start + at];
    return same ? known : (this.#slots[slot] = this.intern(bytes.toString('latin1', start, end)));
  }

  get size(): number {
    return this.#known.size;
  }
}
