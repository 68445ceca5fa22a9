const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const ITEMS_KEY = /"items"\s*:\s*\[$/;

/**
 * Splits the JSON of a Kubernetes list into items while it arrives, so that they are parsed one at a time. A page may
 * contain all objects of the cluster (lists from the cache ignore the limit), and parsing it as a whole would take many
 * times the memory of what we keep. Tracks only quotes, braces and brackets; JSON.parse validates the items.
 */
export class ListScanner {
  readonly #limit: number;
  readonly #onItem: (text: string) => void;
  #pieces: Uint8Array[] = [];
  #length = 0;
  /** The text outside of the items: kind, metadata and the emptied array. */
  #envelope = '';
  #depth = 0;
  #inString = false;
  #escaped = false;
  #where: 'envelope' | 'between items' | 'item' = 'envelope';

  /** @param limitBytes maximum size of an item, and of the text outside of the items */
  constructor(limitBytes: number, onItem: (text: string) => void) {
    this.#limit = limitBytes;
    this.#onItem = onItem;
  }

  /** Returns false when the limit is exceeded. */
  feed(chunk: Uint8Array): boolean {
    let start = 0;
    for (let i = 0; i < chunk.length; i++) {
      const byte = chunk[i];
      if (this.#inString) {
        if (this.#escaped) this.#escaped = false;
        else if (byte === BACKSLASH) this.#escaped = true;
        else if (byte === QUOTE) this.#inString = false;
      } else if (byte === QUOTE) {
        this.#inString = true;
      } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
        start = this.#open(byte, chunk, start, i);
      } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
        start = this.#close(chunk, start, i);
      }
    }
    if (this.#where !== 'between items') this.#keep(chunk.subarray(start));
    return this.#length <= this.#limit && this.#envelope.length <= this.#limit;
  }

  /** Returns the JSON of the list without its items. It is invalid if the list was truncated. */
  end(): string {
    if (this.#where === 'envelope') this.#envelope += this.#take();
    return this.#envelope;
  }

  /** Returns the new start of the unconsumed part of the chunk. */
  #open(byte: number, chunk: Uint8Array, start: number, i: number): number {
    this.#depth++;
    if (this.#where === 'envelope' && byte === OPEN_BRACKET && this.#depth === 2) {
      this.#keep(chunk.subarray(start, i + 1));
      this.#envelope += this.#take();
      if (ITEMS_KEY.test(this.#envelope.slice(-64))) this.#where = 'between items';
      return i + 1;
    }
    if (this.#where === 'between items' && byte === OPEN_BRACE && this.#depth === 3) {
      this.#where = 'item';
      return i;
    }
    return start;
  }

  #close(chunk: Uint8Array, start: number, i: number): number {
    this.#depth--;
    if (this.#where === 'item' && this.#depth === 2) {
      this.#keep(chunk.subarray(start, i + 1));
      this.#where = 'between items';
      this.#onItem(this.#take());
    } else if (this.#where === 'between items' && this.#depth === 1) {
      this.#where = 'envelope';
      return i;
    }
    return start;
  }

  #keep(piece: Uint8Array): void {
    if (piece.length === 0) return;
    this.#pieces.push(piece);
    this.#length += piece.length;
  }

  #take(): string {
    const text = Buffer.concat(this.#pieces).toString('utf8');
    this.#pieces = [];
    this.#length = 0;
    return text;
  }
}
