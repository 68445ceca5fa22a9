/**
 * Keeps one copy of a string that many objects repeat (namespaces, node names, zones): JSON.parse makes a new string for each
 * occurrence. Bounded, because names come from the API: when it is full it starts afresh, which costs copies but never memory
 * without limit.
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
