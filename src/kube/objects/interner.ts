/**
 * Keeps one copy of strings that many objects repeat (namespaces, node names, zones); JSON.parse creates a new one for
 * each occurrence. Clears the table when it is full: the strings are untrusted, so its size is limited.
 */
export class Interner {
  readonly #known = new Map<string, string>();
  readonly #limit: number;

  constructor(limit = 16_384) {
    this.#limit = limit;
  }

  intern(text: string): string {
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    if (this.#known.size >= this.#limit) this.#known.clear();
    this.#known.set(text, text);
    return text;
  }

  get size(): number {
    return this.#known.size;
  }
}
