import { StringDecoder } from 'node:string_decoder';

/** Matches everything up to the next brace or bracket outside of a string, if that bracket has arrived. */
const TO_BRACKET = /[^"{}[\]]*(?:"[^"\\]*(?:\\[^][^"\\]*)*"[^"{}[\]]*)*[{}[\]]/y;
const ITEMS_KEY = /"items"\s*:\s*\[$/;

/**
 * Splits the JSON of a Kubernetes list into items while it arrives, so that they are parsed one at a time. A page may
 * contain all objects of the cluster (lists from the cache ignore the limit), and parsing it as a whole would take many
 * times the memory of what we keep. Tracks only quotes, braces and brackets; JSON.parse validates the items.
 */
export class ListScanner {
  readonly #limit: number;
  readonly #onItem: (text: string) => void;
  readonly #decoder = new StringDecoder('utf8');
  /** What has arrived of the current item, or of the text outside of the items. */
  #text = '';
  /** The length of the scanned part of `#text`. */
  #scanned = 0;
  /** The text outside of the items: kind, metadata and the emptied array. */
  #envelope = '';
  #depth = 0;
  #inItems = false;

  /** @param limit maximum length of an item, and of the text outside of the items */
  constructor(limit: number, onItem: (text: string) => void) {
    this.#limit = limit;
    this.#onItem = onItem;
  }

  /** Returns false when the limit is exceeded. */
  feed(chunk: Uint8Array): boolean {
    const text = this.#text + this.#decoder.write(chunk);
    let start = 0;
    TO_BRACKET.lastIndex = this.#scanned;
    while (TO_BRACKET.test(text)) {
      this.#scanned = TO_BRACKET.lastIndex;
      start = this.#bracket(text, start, this.#scanned);
    }
    this.#text = text.slice(start);
    this.#scanned -= start;
    return this.#text.length <= this.#limit && this.#envelope.length <= this.#limit;
  }

  /** Returns the JSON of the list without its items. It is invalid if the list was truncated. */
  end(): string {
    return this.#inItems ? this.#envelope : this.#envelope + this.#text;
  }

  /** Handles the bracket before `end`. Returns the new start of the unconsumed part of the text. */
  #bracket(text: string, start: number, end: number): number {
    const opens = text[end - 1] === '{' || text[end - 1] === '[';
    this.#depth += opens ? 1 : -1;
    if (!this.#inItems) {
      if (!opens || this.#depth !== 2 || !ITEMS_KEY.test(text.slice(start, end))) return start;
      this.#inItems = true;
      this.#envelope += text.slice(start, end);
      return end;
    }
    // An item begins; the comma before it is dropped.
    if (opens && this.#depth === 3) return end - 1;
    if (!opens && this.#depth === 2) {
      this.#onItem(text.slice(start, end));
      return end;
    }
    if (this.#depth > 1) return start;
    this.#inItems = false;
    return end - 1;
  }
}
