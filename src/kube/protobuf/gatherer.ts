/** Gathers chunks until a whole piece is there. Copies each byte once, however small the chunks are. */
export class Gatherer {
  #chunks: Buffer[] = [];
  #length = 0;
  #needed = 1;

  /** Number of bytes that were not read. */
  get length(): number {
    return this.#length;
  }

  /** Returns all bytes that were not read, if there are as many as needed. The caller must call `keep`. */
  add(chunk: Buffer): Buffer | undefined {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    if (this.#length < this.#needed) return undefined;
    return this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks, this.#length);
  }

  /** @param needed how many bytes `add` must have before it returns them, beginning with the rest */
  keep(rest: Buffer, needed: number): void {
    this.#chunks = rest.length === 0 ? [] : [rest];
    this.#length = rest.length;
    this.#needed = needed;
  }
}
