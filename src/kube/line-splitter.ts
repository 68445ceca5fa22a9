const NEWLINE = 0x0a;

/**
 * Cuts a stream of bytes into lines. Works on bytes, so a character that is split between two chunks stays whole. A line longer
 * than the limit ends the stream: an endless line must not fill the memory.
 */
export class LineSplitter {
  readonly #limit: number;
  #pieces: Uint8Array[] = [];
  #length = 0;

  constructor(limitBytes: number) {
    this.#limit = limitBytes;
  }

  /** The lines that this chunk completes, without their ends; undefined when one is too long. Empty lines are left out. */
  feed(chunk: Uint8Array): readonly string[] | undefined {
    const lines: string[] = [];
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(NEWLINE, start);
      const piece = chunk.subarray(start, end === -1 ? chunk.length : end);
      if (this.#length + piece.length > this.#limit) return undefined;
      if (piece.length > 0) this.#pieces.push(piece);
      this.#length += piece.length;
      if (end === -1) return lines;
      const line = this.#take();
      if (line.trim() !== '') lines.push(line);
      start = end + 1;
    }
  }

  /** What follows the last line end: half an event when the stream ended in the middle. */
  rest(): string {
    return this.#take();
  }

  #take(): string {
    const [first] = this.#pieces;
    const bytes = this.#pieces.length === 1 && first !== undefined ? first : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#length = 0;
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  }
}
