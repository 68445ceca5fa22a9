/** A buffer that has grown beyond this is given back when it holds less again. */
const KEPT_BYTES = 256 * 1024;

/** Gathers chunks until a whole piece is there, in one buffer: nothing is allocated for each chunk. */
export class Gatherer {
  #buffer = Buffer.alloc(0);
  #length = 0;
  #needed = 1;

  /** Number of bytes that were not read. */
  get length(): number {
    return this.#length;
  }

  /** Returns all bytes that were not read, if there are as many as needed; then the caller must call `keep`. */
  add(chunk: Buffer): Buffer | undefined {
    if (this.#length === 0 && chunk.length >= this.#needed) return chunk;
    this.#append(chunk);
    return this.#length < this.#needed ? undefined : this.#buffer.subarray(0, this.#length);
  }

  /**
   * Ends the use of the bytes that `add` returned, except of the rest.
   *
   * @param needed how many bytes `add` must have before it returns them, beginning with the rest
   */
  keep(rest: Buffer, needed: number): void {
    if (this.#buffer.length > KEPT_BYTES && rest.length <= KEPT_BYTES) this.#buffer = Buffer.alloc(0);
    this.#length = 0;
    this.#append(rest);
    this.#needed = needed;
  }

  #append(bytes: Buffer): void {
    const length = this.#length + bytes.length;
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.#buffer.length, length));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
    bytes.copy(this.#buffer, this.#length);
    this.#length = length;
  }
}
